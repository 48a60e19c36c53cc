/** Filters, keys, orders, outcomes, palette and sparkline: the small readers. */
import { describe, expect, test } from "vitest";
import type { Failure, Grade } from "../api/types";
import { job, summary } from "../testing/records";
import { arrive } from "./arrival";
import { formatFilter, parseFilter } from "./filters";
import { readOrder, settings } from "./job_order";
import { barShare, blame, endWords, inOrder, isFailure, scoresOf } from "./outcome";
import { codeColor, toolColors, toolOrder } from "./palette";
import { bucketed, sparkPath } from "./sparkline";

describe("filter", () => {
  test("survives the address", () => {
    const filter = { split: "valid", step: 4, row_index: 0, outcome: "failed" } as const;
    expect(parseFilter(formatFilter(filter))).toEqual(filter);
    expect(formatFilter({})).toBe("");
  });

  test("nonsense is left out", () => {
    expect(parseFilter("?split=sideways&step=-1&row=1.5&outcome=")).toEqual({});
  });
});

describe("arrival", () => {
  test("takes the token out of the fragment, the rest stays", () => {
    expect(arrive("#sign-in=signin_abc")).toEqual({ token: "signin_abc", hash: "" });
    expect(arrive("#a=1&sign-in=k%2B")).toEqual({ token: "k+", hash: "#a=1" });
  });

  test("other fragments are left alone", () => {
    expect(arrive("#section")).toEqual({ token: null, hash: "#section" });
    expect(arrive("")).toEqual({ token: null, hash: "" });
    expect(arrive("#sign-in=")).toEqual({ token: null, hash: "" });
  });
});

describe("order", () => {
  const method = {
    reinforcement: {
      grader: { type: "endpoint", name: "credit", url: "http://grader" },
      tools: [{ name: "search", server_url: "http://tool" }],
      max_episode_steps: 10,
      hyperparameters: { batch_size: 4, n_epochs: "auto" },
    },
  };

  test("is read as written", () => {
    expect(readOrder(method)).toEqual({
      grader: { name: "credit", type: "endpoint", url: "http://grader", judge: null, parts: [] },
      tools: [{ name: "search", url: "http://tool", headers: [] }],
      maxToolCalls: 10,
      hyperparameters: { batch_size: "4", n_epochs: "auto" },
      scalesAdvantages: true,
    });
    const nothing = { grader: null, tools: [], maxToolCalls: null, hyperparameters: {}, scalesAdvantages: true };
    expect(readOrder({})).toEqual(nothing);
    expect(readOrder({ reinforcement: { loss_type: "dr_grpo" } }).scalesAdvantages).toBe(false);
  });

  test("a grader of several parts names them", () => {
    const graders = { style: { type: "score_model", name: "style", model: "judge-small" } };
    const grader = readOrder({ reinforcement: { grader: { type: "multi", name: "both", graders } } }).grader;
    expect(grader?.parts).toEqual([{ name: "style", type: "score_model", url: null, judge: "judge-small", parts: [] }]);
  });

  test("auto shows what it became", () => {
    const resolved = {
      n_epochs: 3,
      batch_size: 4,
      learning_rate_multiplier: 1,
      compute_multiplier: 1,
      eval_interval: 2,
      eval_samples: 1,
      group_size: 8,
      steps: 30,
      burst: 32,
      temperature: 0.8,
      beta: 0,
      epsilon: null,
      epsilon_high: null,
      warmup_steps: 0,
      lr_scheduler_type: "cosine" as const,
      resample_zero_variance: 0,
      max_staleness: 0,
      policy_pin: "rollout" as const,
      max_context_tokens: 4096,
      lora: null,
    };
    const shown = settings(job({ method, resolved_hyperparameters: resolved }));
    expect(shown).toContainEqual({ label: "Epochs", value: "3", isAuto: true });
    expect(shown).toContainEqual({ label: "Rows per step", value: "4", isAuto: false });
    expect(shown).toContainEqual({ label: "Temperature", value: "0.8", isAuto: false });
    expect(shown).toContainEqual({ label: "Learning rate schedule", value: "cosine", isAuto: false });
    expect(settings(job({ method }))).toContainEqual({ label: "Epochs", value: "auto", isAuto: false });
  });
});

describe("outcome", () => {
  const failure: Failure = {
    stage: "tool",
    code: "timeout",
    message: "m",
    endpoint: "cat",
    status: null,
    attempts: 4,
    elapsed_s: 1,
  };
  const grade: Grade = {
    reward: 0.5,
    scores: { credit: 0.5 },
    grader: "credit",
    latency_s: 0,
    attempts: 1,
    model_errors: [],
    is_invalid: false,
  };

  test("blame", () => {
    expect(isFailure(failure)).toBe(true);
    expect(isFailure(grade)).toBe(false);
    expect(blame(failure)).toContain("tool endpoint");
    expect(blame({ ...failure, stage: "grader" })).toContain("grader endpoint");
    expect(blame({ ...failure, stage: "grader", code: "grader_error" })).toBe("The grader's fault");
    expect(blame({ ...failure, code: "oversize_request" })).toBe("The order's fault");
    const beyond = { stage: "grader", code: "invalid_score", detail: "score_out_of_bounds" } as const;
    expect(blame({ ...failure, ...beyond })).toBe("The grader's fault");
    expect(blame({ ...failure, ...beyond, detail: null })).toContain("grader endpoint");
    expect(blame({ ...failure, stage: "sampler", code: "sampler_error" })).toContain("platform");
    expect(blame({ ...failure, stage: "platform", code: "internal_error" })).toContain("platform");
  });

  test("scores say more than the reward, or nothing", () => {
    expect(scoresOf(grade)).toEqual([]);
    expect(scoresOf({ ...grade, scores: { a: 1, b: 0 } })).toEqual([
      ["a", 1],
      ["b", 0],
    ]);
  });

  test("ends in words", () => {
    expect(endWords(summary("a"))).toBe("answered");
    expect(endWords(summary("a", { stop_reason: null, failure_code: "server_error" }))).toBe("server error");
    expect(endWords(summary("a", { stop_reason: "brand_new" }))).toBe("brand_new");
  });

  test("a group goes by row, place and attempt", () => {
    const list = inOrder([
      summary("c", { group_index: 1 }),
      summary("d", { row_index: 2 }),
      summary("b", { attempt: 1 }),
      summary("a"),
    ]);
    expect(list.map((one) => one.id)).toEqual(["a", "b", "c", "d"]);
  });

  test("bars end at the edges", () => expect([barShare(-3), barShare(0.5), barShare(7)]).toEqual([0, 0.5, 1]));
});

test("the same tool has the same colour, whoever else is there", () => {
  const order = toolOrder(["search", "cat"], ["zip", "cat", "ask"]);
  expect(order).toEqual(["search", "cat", "ask", "zip"]);
  expect(toolColors(order).get("cat")).toBe(toolColors(["search", "cat"]).get("cat"));
  expect(codeColor("server_error")).toBe("--c-code-1");
  expect(codeColor("brand_new")).toBe(codeColor("oversize_reply"));
});

test("sparkline", () => {
  expect(bucketed([null, 1, 3, 5, 7], 2)).toEqual([2, 6]);
  expect(bucketed([1, null, 2], 5)).toEqual([1, 2]);
  expect(sparkPath([0, 1], [0, 1], 10, 4)).toBe("M0.0,4.0L10.0,0.0");
  expect(sparkPath([1], [0, 1], 10, 4)).toBe("");
});
