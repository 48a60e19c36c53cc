import { QueryClient } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { NEW_DRAFT, NEW_TOOL, newLeaf } from "../lib/draft";
import { forgetDraft, keepDraft, keptDraft } from "./kept_draft";

const headers = [{ name: "X-Key", value: "hush" }];
const leaf = { ...newLeaf("endpoint"), headers };

test("a draft that is left is found again without what is secret", () => {
  const cache = new QueryClient();
  const tools = [{ ...NEW_TOOL, name: "search", headers }];
  const grader = { ...NEW_DRAFT.grader, leaf, parts: [{ name: "part_1", leaf }] };
  keepDraft(cache, null, { ...NEW_DRAFT, suffix: "mine", tools, grader });
  const kept = keptDraft(cache, null);
  expect(kept).toMatchObject({ suffix: "mine", tools: [{ name: "search" }] });
  expect(kept?.tools[0]?.headers).toEqual([{ name: "X-Key", value: "" }]);
  expect(kept?.grader.parts[0]?.leaf.headers).toEqual([{ name: "X-Key", value: "" }]);
  expect(
    JSON.stringify(
      cache
        .getQueryCache()
        .getAll()
        .map((query) => query.state),
    ),
  ).not.toContain("hush");
});

test("it is kept until the job is created, each by what it began with", () => {
  const cache = new QueryClient();
  keepDraft(cache, null, { ...NEW_DRAFT, suffix: "new" });
  keepDraft(cache, "ftjob-1", { ...NEW_DRAFT, suffix: "clone" });
  const all = cache.getQueryCache().getAll();
  expect(all.map((query) => query.gcTime)).toEqual([Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]);
  forgetDraft(cache, null);
  expect(keptDraft(cache, null)).toBeUndefined();
  expect(keptDraft(cache, "ftjob-1")?.suffix).toBe("clone");
});
