import { describe, expect, it } from "vitest";
import { attempt } from "../testing/records";
import { timeline } from "./timeline";

describe("a timeline", () => {
  it("has each call where it was, queue first, and tells the time between calls", () => {
    const made = timeline([
      attempt(1, { at: 101, latency_ms: 800, queued_ms: 200 }),
      attempt(2, { at: 103, latency_ms: 500, queued_ms: 0, code: "timeout" }),
      attempt(3, { at: 104, latency_ms: 1000, queued_ms: 0, stage: "grader", endpoint: "judge" }),
    ]);
    expect(made?.seconds).toBeCloseTo(4);
    expect(made?.lanes.map((lane) => lane.label)).toEqual(["search", "judge"]);
    expect(made?.lanes[0]?.bars.map((bar) => bar.kind)).toEqual(["queued", "tool", "failed"]);
    expect(made?.lanes[0]?.bars[1]?.from).toBeCloseTo(0.2);
    expect(made?.between).toHaveLength(1);
    expect(made?.between[0]?.from).toBeCloseTo(1);
    expect(made?.between[0]?.to).toBeCloseTo(2.5);
  });

  it("is none without calls, and leaves out what is beyond counting", () => {
    expect(timeline([])).toBeNull();
    const many = Array.from({ length: 10_000 }, (_, i) => attempt(i, { at: 100 + i }));
    expect(timeline(many)?.leftOut).toBe(9600);
  });
});
