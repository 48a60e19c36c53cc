import { expect, test } from "vitest";
import type { Job } from "../api/types";
import { asked, type Command, movedChoice, offered } from "./commands";

const job = {
  id: "ftjob-1",
  user_provided_suffix: "finance",
  model: "starter",
  status: "running",
  hold: null,
} as Job;
const over = { ...job, id: "ftjob-2", user_provided_suffix: "retail", status: "succeeded" } as Job;
const labels = (commands: readonly Command[]) => commands.map((one) => one.label);

test("without a word all pages are offered, then the jobs", () => {
  const all = offered("", [job]);
  expect(labels(all)).toEqual(expect.arrayContaining(["Jobs", "Settings", "New job"]));
  expect(all.at(-1)).toEqual({ label: "finance", detail: "job ftjob-1, running", does: "/jobs/ftjob-1" });
});

test("every word has to fit, in any order, and a beginning comes first", () => {
  expect(labels(offered("job", []))).toEqual(["Jobs", "New job"]);
  expect(labels(offered("job NEW", []))).toEqual(["New job"]);
  expect(labels(offered("sign", []))).toEqual(["Sign out", "Make a signing secret"]);
  expect(offered("weather", [])).toEqual([]);
});

test("a verb is done with the jobs that the rest finds, where their state allows it", () => {
  expect(asked("Pause  my finance")).toEqual({ verb: "pause", query: "my finance" });
  expect(asked("paused")).toEqual({ verb: null, query: "paused" });
  expect(offered("pause f", [job, over])).toEqual([
    {
      label: "Pause finance",
      detail: "job ftjob-1, running",
      does: { kind: "job", jobId: "ftjob-1", name: "finance", action: "pause" },
    },
  ]);
  expect(offered("clone", [over]).map((one) => one.does)).toEqual(["/new?from=ftjob-2"]);
  expect(offered("resume", [job, over])).toEqual([]);
});

test("all that can be done with the job whose page is open is offered, once", () => {
  const all = offered("finance", [job], job);
  expect(labels(all)).toEqual([
    "Rollouts of finance",
    "Variance of finance",
    "Policy change of finance",
    "Pause finance",
    "Cancel finance",
    "Clone finance",
    "finance",
  ]);
  expect(labels(offered("cancel", [job], job))).toEqual(["Cancel finance"]);
});

test("arrows go round", () => {
  expect(movedChoice("ArrowDown", 2, 3)).toBe(0);
  expect(movedChoice("ArrowUp", 0, 3)).toBe(2);
  expect(movedChoice("Enter", 0, 3)).toBeNull();
  expect(movedChoice("ArrowDown", 0, 0)).toBeNull();
});
