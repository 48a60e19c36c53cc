import { expect, test } from "vitest";
import type { Job } from "../api/types";
import { movedChoice, offered } from "./commands";

const job = { id: "ftjob-1", user_provided_suffix: "finance", model: "starter", status: "running" } as Job;

test("without a word all pages are offered, then the jobs", () => {
  const all = offered("", [job]);
  expect(all.map((one) => one.label)).toEqual(expect.arrayContaining(["Jobs", "Settings", "New job"]));
  expect(all.at(-1)).toEqual({ label: "finance", detail: "job ftjob-1, running", href: "/jobs/ftjob-1" });
});

test("every word has to fit, in any order, and a beginning comes first", () => {
  expect(offered("job", []).map((one) => one.label)).toEqual(["Jobs", "New job"]);
  expect(offered("job NEW", []).map((one) => one.label)).toEqual(["New job"]);
  expect(offered("weather", [])).toEqual([]);
});

test("arrows go round", () => {
  expect(movedChoice("ArrowDown", 2, 3)).toBe(0);
  expect(movedChoice("ArrowUp", 0, 3)).toBe(2);
  expect(movedChoice("Enter", 0, 3)).toBeNull();
  expect(movedChoice("ArrowDown", 0, 0)).toBeNull();
});
