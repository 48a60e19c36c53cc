import { describe, expect, test } from "vitest";
import type { StreamMessage } from "../api/stream";
import { event, job, stats, step } from "../testing/records";
import { fold, mergeEvents, reconnectDelay } from "./fold";

const stepMessage = (number: number, at = number * 10): StreamMessage => ({
  type: "step",
  data: step(number, stats(), null, at),
});
const NOTHING = { job: job(), steps: [], events: [] };

describe("steps", () => {
  test("come in order, each once", () => {
    const first = fold(NOTHING, [stepMessage(0), stepMessage(2), stepMessage(1), stepMessage(2)]);
    expect(first.steps?.map((one) => one.step)).toEqual([0, 1, 2]);
    expect(first.hasNewSteps).toBe(true);
  });

  test("a history told again changes nothing, not even the array", () => {
    const steps = [step(0, null, stats()), step(1, stats(), null)];
    const again = fold({ ...NOTHING, steps }, [stepMessage(0), stepMessage(1)]);
    expect(again.steps).toBe(steps);
    expect(again.hasNewSteps).toBe(false);
  });

  test("done again after a resume, the newer record wins", () => {
    const steps = [step(1, stats({ reward_mean: 0.1 }), null, 10)];
    const now = fold({ ...NOTHING, steps }, [{ type: "step", data: step(1, stats({ reward_mean: 0.9 }), null, 99) }]);
    expect(now.steps?.[0]?.record.train?.reward_mean).toBe(0.9);
  });

  test("above the job's step they are void", () => {
    const steps = [0, 1, 2, 3].map((number) => step(number, stats(), null));
    const now = fold({ ...NOTHING, steps }, [{ type: "job", data: job({ current_step: 1 }) }]);
    expect(now.steps?.map((one) => one.step)).toEqual([0, 1]);
    expect(now.job?.current_step).toBe(1);
    expect(fold({ ...NOTHING, steps }, [{ type: "job", data: job({ current_step: null }) }]).steps).toEqual([]);
  });

  test("not loaded yet they stay unknown", () => {
    expect(fold({ ...NOTHING, steps: undefined }, [stepMessage(3)]).steps).toBeUndefined();
  });
});

describe("events", () => {
  test("the stream's order is turned round, also within a second", () => {
    const told: StreamMessage[] = ["a", "b", "c"].map((id) => ({ type: "event", data: event(id, id === "a" ? 1 : 2) }));
    expect(fold(NOTHING, told).events.map((one) => one.id)).toEqual(["c", "b", "a"]);
  });

  test("pages and stream overlap", () => {
    const merged = mergeEvents([event("d", 4), event("c", 3)], [[event("c", 3), event("b", 2)], [event("a", 1)]]);
    expect(merged.map((one) => one.id)).toEqual(["d", "c", "b", "a"]);
  });
});

test("reconnecting slows down to half a minute", () => {
  expect([1, 2, 3, 20].map(reconnectDelay)).toEqual([1, 2, 4, 30]);
});
