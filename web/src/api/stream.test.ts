import { expect, test } from "vitest";
import { stats, step } from "../testing/records";
import { parseMessage } from "./stream";

/** A step as the stream has it: with its whole record, as the trainer wrote it. */
function told(train: object | null, valid: object | null): string {
  const drawn = step(3, null, valid && stats());
  return JSON.stringify({ ...drawn, record: { ...drawn.record, step: 3, total_steps: 8, train, valid } });
}

const OF_ROLLOUTS = {
  ...stats({ reward_mean: 0.7 }),
  graded: 6,
  tools: [{ name: "search", calls: 4, calls_per_rollout_mean: 0.5, output_tokens_mean: 30 }],
};

test("a step's reward is the one that the curves have: over rows, with its interval", () => {
  const estimate = { mean: 0.6, low: 0.5, high: 0.7, rows: 4, rollouts: 6 };
  const message = parseMessage("step", told(null, { ...OF_ROLLOUTS, reward_estimate: estimate }));
  const tools = [{ name: "search", calls_per_rollout_mean: 0.5 }];
  const valid = stats({
    reward_mean: 0.6,
    reward_low: 0.5,
    reward_high: 0.7,
    reward_mean_if_failures_were_zero: 0.7,
    tools,
  });
  expect(message).toEqual({ type: "step", data: step(3, null, valid) });
});

// Node has it since 21; browsers are told of in `exact_json`.
test.runIf("rawJSON" in JSON)("a job's seed has all its digits", () => {
  const message = parseMessage("job", '{"id": "ftjob-1", "seed": 9007199254740993}');
  expect(message).toMatchObject({ type: "job", data: { id: "ftjob-1" } });
  expect(String(message?.type === "job" && message.data.seed)).toBe("9007199254740993");
});

test("over rollouts where a record has no estimate", () => {
  const message = parseMessage("step", told(OF_ROLLOUTS, null));
  expect(message?.data).toMatchObject({
    record: { train: { reward_mean: 0.7, reward_low: null, reward_high: null }, valid: null },
  });
});
