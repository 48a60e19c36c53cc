import { describe, expect, test } from "vitest";
import type { StreamMessage } from "../api/stream";
import { curves, event, job, stats, step } from "../testing/records";
import { fold, goingOn, isBehind, lastKnown, mergeEvents, reconnectDelay, streamPosition } from "./fold";

const stepMessage = (number: number, at = number * 10): StreamMessage => ({
  type: "step",
  data: step(number, stats(), null, at),
});
const NOTHING = { job: job(), curves: curves([]), events: [] };

describe("steps", () => {
  test("come in order, each once", () => {
    const first = fold(NOTHING, [stepMessage(0), stepMessage(1), stepMessage(1), stepMessage(2)]);
    expect(first.curves?.data.map((one) => one.step)).toEqual([0, 1, 2]);
    expect(first.hasNewSteps).toBe(true);
  });

  test("a history told again changes nothing, not even the array", () => {
    const steps = [step(0, null, stats()), step(1, stats(), null)];
    const known = curves(steps);
    const again = fold({ ...NOTHING, curves: known }, [stepMessage(0), stepMessage(1)]);
    expect(again.curves).toBe(known);
    expect(again.hasNewSteps).toBe(false);
  });

  test("done again after a resume, the newer record wins", () => {
    const steps = [step(1, stats({ reward_mean: 0.1 }), null, 10)];
    const now = fold({ ...NOTHING, curves: curves(steps) }, [
      { type: "step", data: step(1, stats({ reward_mean: 0.9 }), null, 99) },
    ]);
    expect(now.curves?.data[0]?.record.train?.reward_mean).toBe(0.9);
  });

  test("above the job's step they are void", () => {
    const steps = [0, 1, 2, 3].map((number) => step(number, stats(), null));
    const now = fold({ ...NOTHING, curves: curves(steps) }, [{ type: "job", data: job({ current_step: 1 }) }]);
    expect(now.curves?.data.map((one) => one.step)).toEqual([0, 1]);
    expect(now.job?.current_step).toBe(1);
    expect(
      fold({ ...NOTHING, curves: curves(steps) }, [{ type: "job", data: job({ current_step: null }) }]).curves?.data,
    ).toEqual([]);
  });

  test("not loaded yet they stay unknown", () => {
    expect(fold({ ...NOTHING, curves: undefined }, [stepMessage(3)]).curves).toBeUndefined();
  });
});

describe("events of a page that is open for days", () => {
  const told = (count: number, from = 0): StreamMessage[] =>
    Array.from({ length: count }, (_, index) => {
      const number = from + index;
      const type = number % 10 === 3 ? "message" : "metrics";
      return { type: "event", data: { ...event(`event-${number}`, number), type } };
    });

  test("are cut at a message, rarely, and the newest stay", () => {
    const full = fold(NOTHING, told(2000));
    expect([full.events.length, full.areEventsCut]).toEqual([2000, false]);
    const cut = fold({ ...NOTHING, events: full.events }, told(1, 2000));
    expect(cut.areEventsCut).toBe(true);
    expect(cut.events[0]?.id).toBe("event-2000");
    expect(cut.events.at(-1)?.id).toBe("event-1003");
    expect(cut.events).toHaveLength(998);
    expect(fold({ ...NOTHING, events: cut.events }, told(1, 2001)).areEventsCut).toBe(false);
  });

  test("that come later in one second stand before those that came first", () => {
    const known = fold(NOTHING, [{ type: "event", data: event("a", 7) }]).events;
    const later = fold({ ...NOTHING, events: known }, [{ type: "event", data: event("b", 7) }]);
    expect(later.events.map((one) => one.id)).toEqual(["b", "a"]);
  });

  test("without any message they are cut all the same", () => {
    const figures = told(4000).filter((one) => one.type === "event" && one.data.type === "metrics");
    expect(fold(NOTHING, figures).events).toHaveLength(1000);
  });
});

describe("curves of a long job", () => {
  const drawn = [step(0, null, stats()), step(40, stats(), null), step(80, stats(), null)];
  const long = { data: drawn, steps: 81, rollouts: 900, excluded: 7 };

  test("a step that was left out stays out, and nothing is counted twice", () => {
    const now = fold({ ...NOTHING, curves: long }, [stepMessage(41), stepMessage(80)]);
    expect(now.curves).toBe(long);
    expect(now.hasNewSteps).toBe(false);
  });

  test("a new step is added to the sums", () => {
    const done: StreamMessage = { type: "step", data: step(81, stats({ excluded: 2 }), stats()) };
    const now = fold({ ...NOTHING, curves: long }, [done]);
    expect(now.curves).toMatchObject({ steps: 82, rollouts: 916, excluded: 9 });
    expect(now.areCurvesStale).toBe(false);
  });

  test("whatever is voided or done again takes its sums with it", () => {
    const voided = fold({ ...NOTHING, curves: long }, [{ type: "job", data: job({ current_step: 60 }) }]);
    expect(voided.curves?.data.map((one) => one.step)).toEqual([0, 40]);
    expect(voided.areCurvesStale).toBe(true);
    expect(fold({ ...NOTHING, curves: long }, [stepMessage(40, 999)]).areCurvesStale).toBe(true);
  });
});

describe("a page that is open for days", () => {
  const many = Array.from({ length: 600 }, (_, number) => step(number, stats(), null));

  test("asks for the curves anew, once, when more points have come than are drawn", () => {
    const full = { ...NOTHING, curves: curves(many) };
    const over = fold(full, [stepMessage(600)]);
    expect(over.curves?.data.length).toBe(601);
    expect(over.areCurvesStale).toBe(true);
    expect(fold(over, [stepMessage(601)]).areCurvesStale).toBe(false);
    expect(fold({ ...NOTHING, curves: curves(many.slice(1)) }, [stepMessage(600)]).areCurvesStale).toBe(false);
  });

  test("does not keep a step's figures twice", () => {
    const data = { train: { reward: { mean: 0.5 } } };
    const told: StreamMessage[] = [
      { type: "event", data: { ...event("m", 1), type: "metrics", data } },
      { type: "event", data: { ...event("h", 2), type: "message", data: { code: "held" } } },
    ];
    expect(fold(NOTHING, told).events.map((one) => one.data)).toEqual([{ code: "held" }, null]);
  });
});

test("a stream goes on after the oldest of the replies", () => {
  expect(streamPosition({ lastEventId: "12" }, undefined, { lastEventId: "9" })).toBe("9");
  expect(streamPosition(undefined)).toBeUndefined();
});

test("a stream leaves out nothing that replies are ahead of, and tells again what they are behind", () => {
  const told = { from: 10, to: 20 };
  const starts = ["10", "15", "21"].map((position) => goingOn(told, position));
  expect(starts.map(({ start }) => start)).toEqual(["10", "15", "20"]);
  expect(starts.every(({ span }) => span === told)).toBe(true);
  expect(goingOn(told, "9")).toEqual({ span: { from: 9, to: 9 }, start: "9" });
  expect(goingOn(null, "21")).toEqual({ span: { from: 21, to: 21 }, start: "21" });
  expect(goingOn(null, undefined).start).toBe("0");
});

test("replies far ahead of what was told are not caught up with, those of an ended job not at all", () => {
  const told = { from: 10, to: 20 };
  expect(["2020", "2021"].map((position) => isBehind(told, position))).toEqual([false, true]);
  expect(["20", "21"].map((position) => isBehind(told, position, 0))).toEqual([false, true]);
  expect([isBehind(null, "9000"), isBehind(told, undefined)]).toEqual([false, false]);
});

describe("events", () => {
  test("the stream's order is turned round, also within a second", () => {
    const told: StreamMessage[] = ["a", "b", "c"].map((id) => ({ type: "event", data: event(id, id === "a" ? 1 : 2) }));
    expect(fold(NOTHING, told).events.map((one) => one.id)).toEqual(["c", "b", "a"]);
  });

  test("a page goes on behind what the stream told, down to a message", () => {
    const metrics = { ...event("a", 1), type: "metrics" as const };
    const live = [event("d", 4), event("c", 3), event("b", 2), metrics];
    expect(["e", "d", "c", "b"].map((id) => lastKnown(event(id, 0), live).id)).toEqual(["e", "b", "b", "b"]);
    expect(lastKnown(metrics, live)).toBe(metrics);
    expect(lastKnown(event("d", 4), [])).toEqual(event("d", 4));
  });

  test("pages and stream overlap", () => {
    const merged = mergeEvents([event("d", 4), event("c", 3)], [[event("c", 3), event("b", 2)], [event("a", 1)]]);
    expect(merged.map((one) => one.id)).toEqual(["d", "c", "b", "a"]);
  });
});

test("reconnecting slows down to half a minute", () => {
  expect([1, 2, 3, 20].map(reconnectDelay)).toEqual([1, 2, 4, 30]);
});
