import { describe, expect, test } from "vitest";
import type { Job } from "../api/types";
import { job } from "../testing/records";
import { actions, holdNotice, mark, waiting } from "./standing";

const HOLD = {
  endpoint: "tool 'search'",
  stage: "tool",
  reason: "it answered HTTP 503",
  since: 1000,
  step: 12,
} as const;
const HELD = job({ status: "paused", hold: HOLD, current_step: 11 });
const PAUSED = job({ status: "paused", current_step: 5 });

describe("a held job", () => {
  test("is not a paused one", () => {
    expect(mark(HELD)).toEqual({ label: "held", tone: "warn" });
    expect(mark(PAUSED)).toEqual({ label: "paused", tone: "" });
  });

  test("says whom it waits for, why, since when and where it goes on", () => {
    expect(holdNotice(HELD, 1125)).toEqual({
      title: "Held: waiting for tool 'search'",
      reason: "it answered HTTP 503",
      outlook: "For 2 min 05 s now. The platform keeps trying; step 12 goes on by itself as soon as it answers.",
      isHeld: true,
    });
  });

  test("can be paused, not resumed", () => expect(actions(HELD)).toEqual(["pause", "cancel"]));
});

describe("a paused job", () => {
  test("says where it would go on", () => {
    expect(holdNotice(PAUSED, 0)?.outlook).toContain("the checkpoint of step 5");
    expect(holdNotice(job({ status: "paused" }), 0)?.outlook).toContain("the beginning");
  });

  test("can be resumed", () => expect(actions(PAUSED)).toEqual(["resume", "cancel"]));
});

test("a requested action is shown, and not asked for twice", () => {
  const pausing = job({ is_pause_requested: true });
  expect([mark(pausing).label, holdNotice(pausing, 0)?.title, actions(pausing)]).toEqual([
    "pausing",
    "Pausing",
    ["cancel"],
  ]);
  const cancelling = job({ is_pause_requested: true, is_cancel_requested: true });
  expect([mark(cancelling).label, holdNotice(cancelling, 0)?.title, actions(cancelling)]).toEqual([
    "cancelling",
    "Cancelling",
    [],
  ]);
});

test("a job that simply goes on has nothing to explain", () => {
  const offered = (status: Job["status"]) => actions(job({ status, is_cancel_requested: status === "cancelled" }));
  expect(holdNotice(job(), 0)).toBeNull();
  expect(holdNotice(job({ status: "cancelled", is_cancel_requested: true }), 0)).toBeNull();
  expect(mark(job({ status: "cancelled", is_cancel_requested: true })).label).toBe("cancelled");
  expect(mark(job({ status: "validating_files" }))).toEqual({ label: "validating files", tone: "active" });
  expect([offered("running"), offered("queued")]).toEqual([
    ["pause", "cancel"],
    ["pause", "cancel"],
  ]);
  expect(offered("validating_files")).toEqual(["cancel"]);
  expect([offered("succeeded"), offered("failed"), offered("cancelled")]).toEqual([[], [], []]);
});

test("a job that the platform paused is not one that its customer paused, and says why", () => {
  const pause_reason = { code: "platform_failure", message: "8 of 8 rollouts were lost.", since: 5, step: 3 };
  const failed = job({ status: "paused", current_step: 3, pause_reason });
  expect(mark(failed)).toEqual({ label: "paused by the platform", tone: "bad" });
  expect(actions(failed)).toEqual(["resume", "cancel"]);
  expect(holdNotice(failed, 9)).toEqual({
    title: "Paused: the platform failed",
    reason: "8 of 8 rollouts were lost.",
    outlook: "Its machine is free. Resume it to go on from the checkpoint of step 3.",
    isHeld: false,
  });
});

describe("before the first step", () => {
  test("every status has its own words", () => {
    const statuses = ["validating_files", "queued", "paused", "running", "failed"] as const;
    const texts = statuses.map((status) => waiting(job({ status })).text);
    expect(new Set(texts).size).toBe(statuses.length);
    expect(waiting(job({ status: "failed" })).text).toBe("The job ended before its first step was done.");
    expect(waiting(job({ status: "running" })).text).toMatch(/baseline comes first/);
  });

  test("a queued job says who has the slot", () => {
    const [free, held] = [
      { job: "ftjob-2", hold: null },
      { job: "ftjob-3", hold: "tool 'search'" },
    ];
    const queued = (waits_for: Job["waits_for"]) => waiting(job({ status: "queued", waits_for })).text;
    expect(queued(null)).toBe("A worker starts it next.");
    expect(queued([free])).toBe("The training slot is taken by ftjob-2.");
    expect(queued([free, held])).toBe("The training slots are taken by ftjob-2, ftjob-3 (held by tool 'search').");
  });
});
