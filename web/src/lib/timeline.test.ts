import { describe, expect, it } from "vitest";
import { attempt } from "../testing/records";
import { type Timed, timeline } from "./timeline";

const GRADE = {
  reward: 1,
  scores: {},
  grader: "judge",
  latency_s: 0,
  attempts: 1,
  model_errors: [],
  is_invalid: false,
};
const UNTIMED: Timed = { turn_times: [], grading_s: 0, outcome: GRADE };
const TURNS: Timed["turn_times"] = [
  { began_at: 99, sampling_s: 1, tools_s: 1, completion_tokens: 30 },
  { began_at: 101, sampling_s: 2, tools_s: 0, completion_tokens: 7 },
];

describe("a timeline", () => {
  it("has each turn and each call where it was, queue first", () => {
    const calls = [
      attempt(1, { at: 101, latency_ms: 800, queued_ms: 200 }),
      attempt(3, { at: 104, latency_ms: 1000, queued_ms: 0, stage: "grader", endpoint: "judge" }),
    ];
    const made = timeline(calls, { ...UNTIMED, turn_times: TURNS, grading_s: 1 });
    expect(made?.seconds).toBeCloseTo(5);
    expect(made?.lanes.map((lane) => lane.label)).toEqual(["policy", "search", "judge"]);
    expect(made?.lanes[0]?.bars.map((bar) => [bar.label, bar.from, bar.to])).toEqual([
      ["turn 1, 30 tokens", 0, 1],
      ["turn 2, 7 tokens", 2, 4],
    ]);
    expect(made?.lanes[1]?.bars.map((bar) => bar.kind)).toEqual(["queued", "tool"]);
    expect(made?.lanes[1]?.bars[1]?.from).toBeCloseTo(1.2);
    expect(made?.lanes[2]?.bars).toHaveLength(1);
  });

  it("of a rollout that called nobody has its turns, and the grade behind the last", () => {
    const made = timeline([], { ...UNTIMED, turn_times: TURNS, grading_s: 0.5 });
    expect(made?.lanes.map((lane) => lane.label)).toEqual(["policy", "judge"]);
    expect(made?.lanes[1]?.bars.map((bar) => [bar.kind, bar.from, bar.to])).toEqual([["grading", 4, 4.5]]);
  });

  it("without times of turns tells the time between calls", () => {
    const made = timeline(
      [
        attempt(1, { at: 101, latency_ms: 800, queued_ms: 200 }),
        attempt(2, { at: 103, latency_ms: 500, queued_ms: 0, code: "timeout" }),
      ],
      UNTIMED,
    );
    expect(made?.lanes.map((lane) => lane.label)).toEqual(["sampling or waiting", "search"]);
    expect(made?.lanes[0]?.bars.map((bar) => [bar.from, bar.to])).toEqual([[1, 2.5]]);
    expect(made?.lanes[1]?.bars.map((bar) => bar.kind)).toEqual(["queued", "tool", "failed"]);
  });

  it("is none without times, and leaves out what is beyond counting", () => {
    expect(timeline([], UNTIMED)).toBeNull();
    const many = Array.from({ length: 10_000 }, (_, i) => attempt(i, { at: 100 + i }));
    expect(timeline(many, UNTIMED)?.leftOut).toBe(9600);
  });
});
