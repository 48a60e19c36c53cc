import { expect, test } from "vitest";
import { compareAddress, EVERY_JOB, formatJobSearch, parseJobSearch, toggled, toJobQuery } from "./job_search";

test("an address says which jobs are shown, and what makes no sense is left out", () => {
  expect(parseJobSearch("")).toEqual(EVERY_JOB);
  expect(parseJobSearch("search=mail+x&status=paused&sort=gain")).toEqual({
    search: "mail x",
    status: "paused",
    sort: "gain",
  });
  expect(parseJobSearch("status=over&sort=loss")).toEqual(EVERY_JOB);
});

test("an address goes there and back, and names only what is not as ever", () => {
  const wanted = { search: "a&b", status: "active", sort: "oldest" };
  expect(parseJobSearch(formatJobSearch(wanted))).toEqual(wanted);
  expect(formatJobSearch({ ...EVERY_JOB, sort: "burst" })).toBe("?sort=burst");
  expect(formatJobSearch(EVERY_JOB)).toBe("");
});

test("the API is asked for statuses and a direction", () => {
  expect(toJobQuery(EVERY_JOB)).toEqual({ search: "", statuses: [], sort: "created", order: "desc" });
  expect(toJobQuery({ search: " mail ", status: "queued", sort: "shortest" })).toEqual({
    search: "mail",
    statuses: ["validating_files", "queued"],
    sort: "duration",
    order: "asc",
  });
});

test("eight jobs are compared at most", () => {
  const eight = [..."abcdefgh"];
  expect(toggled(["a"], "b")).toEqual(["a", "b"]);
  expect(toggled(eight, "c")).toEqual([..."abdefgh"]);
  expect(toggled(eight, "i")).toEqual(eight);
  expect(compareAddress(["ftjob-1", "ftjob-2"])).toBe("/compare?job=ftjob-1&job=ftjob-2");
});
