import { expect, test } from "vitest";
import { jobOf, SECTIONS, sectionOf } from "./sections";

test("every section is found by its own address, and what lies below it", () => {
  for (const section of SECTIONS) expect(sectionOf(section.href)).toBe(section);
  expect(sectionOf("/jobs/ftjob-1/rollouts/2")?.label).toBe("Jobs");
});

test("a job's pages are about it, and no others are", () => {
  expect(jobOf("/jobs/ftjob-1/rollouts/2")).toBe("ftjob-1");
  expect(jobOf("/jobs")).toBeNull();
  expect(jobOf("/evals/eval_1")).toBeNull();
});

test("an address that leads nowhere lies in none", () => {
  expect(sectionOf("/nowhere")).toBeNull();
  expect(sectionOf("/jobsandmore")).toBeNull();
});
