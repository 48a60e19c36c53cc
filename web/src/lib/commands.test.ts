import { expect, test } from "vitest";
import type { Job, ListedEval, Rehearsal, StoredFile } from "../api/types";
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
  const all = offered("", { jobs: [job] });
  expect(labels(all)).toEqual(expect.arrayContaining(["Jobs", "Settings", "New job"]));
  expect(all.at(-1)).toEqual({ label: "finance", detail: "job ftjob-1, running", does: "/jobs/ftjob-1" });
});

test("every word has to fit, in any order, and a beginning comes first", () => {
  expect(labels(offered("job", { jobs: [] }))).toEqual(["Jobs", "New job", "Compare jobs"]);
  expect(labels(offered("job NEW", { jobs: [] }))).toEqual(["New job"]);
  expect(labels(offered("sign", { jobs: [] }))).toEqual(["Sign out", "Make a signing secret"]);
  expect(offered("weather", { jobs: [] })).toEqual([]);
});

test("a verb is done with the jobs that the rest finds, where their state allows it", () => {
  expect(asked("Pause  my finance")).toEqual({ verb: "pause", query: "my finance" });
  expect(asked("paused")).toEqual({ verb: null, query: "paused" });
  expect(offered("pause f", { jobs: [job, over] })).toEqual([
    {
      label: "Pause finance",
      detail: "job ftjob-1, running",
      does: { kind: "job", jobId: "ftjob-1", name: "finance", action: "pause" },
    },
  ]);
  expect(offered("clone", { jobs: [over] }).map((one) => one.does)).toEqual(["/new?from=ftjob-2"]);
  expect(offered("resume", { jobs: [job, over] })).toEqual([]);
});

test("all that can be done with the job whose page is open is offered, once", () => {
  const all = offered("finance", { jobs: [job], current: job });
  expect(labels(all)).toEqual([
    "Rollouts of finance",
    "Variance of finance",
    "Policy change of finance",
    "Pause finance",
    "Cancel finance",
    "Clone finance",
    "finance",
  ]);
  expect(labels(offered("cancel", { jobs: [job], current: job }))).toEqual(["Cancel finance"]);
});

test("another job is compared with the one whose page is open", () => {
  expect(offered("compare ret", { jobs: [over, job], current: job })).toEqual([
    {
      label: "Compare retail with finance",
      detail: "job ftjob-2, succeeded",
      does: "/compare?job=ftjob-1&job=ftjob-2",
    },
  ]);
  expect(labels(offered("compare", { jobs: [over] }))).toEqual(["Compare jobs"]);
});

test("evals, datasets and what goes on of them are found by name, a few of each", () => {
  const evals = [
    { id: "eval_1", name: "capitals", latest_run: { id: "run_1", status: "in_progress" } },
    { id: "eval_2", name: "capital letters", latest_run: null },
  ] as unknown as ListedEval[];
  const files = [{ id: "file-1", filename: "capitals.jsonl" }] as StoredFile[];
  const rehearsals = [
    { id: "rehearsal-1", status: "running" },
    { id: "rehearsal-2", status: "succeeded" },
  ] as Rehearsal[];
  const known = { jobs: [], evals, files, rehearsals };
  expect(labels(offered("capital", known))).toEqual([
    "capitals",
    "capital letters",
    "Run capitals",
    "Run capital letters",
    "Cancel the run of capitals",
    "capitals.jsonl",
  ]);
  expect(offered("run capitals", known).map((one) => one.does)).toEqual([
    "/evals/eval_1?run=new",
    { kind: "eval-run", evalId: "eval_1", runId: "run_1" },
  ]);
  expect(offered("rehearsal", known).map((one) => one.does)).toEqual([{ kind: "rehearsal", id: "rehearsal-1" }]);
  expect(offered("", known).filter((one) => one.detail.startsWith("eval"))).toEqual([]);
  const many = Array.from({ length: 30 }, (_, i) => ({ id: `file-${i}`, filename: "rows.jsonl" }) as StoredFile);
  expect(offered("rows", { jobs: [], files: many })).toHaveLength(8);
});

test("notices are offered where the browser has them, and to be stopped where they are wanted", () => {
  expect(offered("notify", { jobs: [] })).toEqual([]);
  expect(labels(offered("notify", { jobs: [], isNotifying: false }))).toEqual(["Notify me"]);
  expect(labels(offered("notify", { jobs: [], isNotifying: true }))).toEqual(["Stop notifying"]);
});

test("arrows go round", () => {
  expect(movedChoice("ArrowDown", 2, 3)).toBe(0);
  expect(movedChoice("ArrowUp", 0, 3)).toBe(2);
  expect(movedChoice("Enter", 0, 3)).toBeNull();
  expect(movedChoice("ArrowDown", 0, 0)).toBeNull();
});
