import { expect, test } from "vitest";
import type { FileUse, StoredFile } from "../api/types";
import { contentOf, fileMark, pathOf, previewOf, readNote } from "./datasets";

const file = (dataset: object | null, status = "processed") => ({ dataset, status }) as unknown as StoredFile;
const GOOD = { rows: 1200, problems: 0, tools: ["search"], duplicates: 2, stopped_at_line: null };

test("a dataset says what is in it and whether jobs can use it", () => {
  expect(fileMark(file(GOOD))).toEqual({ label: "good", tone: "good" });
  expect(fileMark(file({ ...GOOD, problems: 1 }))).toEqual({ label: "1 bad line", tone: "bad" });
  expect(contentOf(file(GOOD))).toBe("1\u202f200 rows, 1 tool, 2 duplicates");
  expect(readNote(file(GOOD))).toBeNull();
  expect(readNote(file({ ...GOOD, stopped_at_line: 1001 }))).toContain("line 1\u202f001");
});

test("a file that is no dataset is not called good", () => {
  expect(fileMark(file(null))).toEqual({ label: "uploaded", tone: "" });
  expect(fileMark(file(null, "error")).tone).toBe("bad");
  expect(contentOf(file(null))).toBeNull();
});

test("who uses it is found, but for rehearsals, which have no page of their own", () => {
  const use = (kind: string) => ({ kind, id: "x", eval_id: "e" }) as FileUse;
  expect([use("job"), use("eval_run"), use("rehearsal")].map(pathOf)).toEqual(["/jobs/x", "/evals/e/runs/x", null]);
});

test("a row is told by its question, and a line that is no JSON as it stands", () => {
  const messages = [
    { role: "system", content: "Rules" },
    { role: "user", content: "How much?" },
  ];
  const [row, item, broken] = previewOf([JSON.stringify({ messages }), '{"item": {"a": 1}}', "{oops"]);
  expect(row).toMatchObject({ line: 1, text: "How much?" });
  expect(row?.whole).toContain('\n  "messages"');
  expect(item?.text).toBe('{"a":1}');
  expect(broken).toEqual({ line: 3, text: "{oops", whole: "{oops" });
});
