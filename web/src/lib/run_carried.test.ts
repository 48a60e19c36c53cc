import { expect, test } from "vitest";
import type { EvalRun } from "../api/types";
import { carriedFrom, carriedWords, NOTHING } from "./run_carried";
import { isWhole, messagePaths, orderOf, startOf } from "./run_order";

const TEMPLATE = [
  { role: "system", content: { type: "input_text", text: "Be brief." } },
  { role: "user", content: "1 + 1?" },
  { role: "assistant", content: "2" },
  { role: "user", content: [{ type: "input_text", text: "{{item.question}}" }, "Think."], type: "message" },
];
const LOOKUP = { type: "function", name: "lookup", parameters: { type: "object" } };
const SAMPLING = {
  temperature: 0.5,
  top_p: 0.9,
  seed: 7,
  reasoning_effort: "low",
  text: { format: { type: "json_schema", name: "total", schema: {} } },
  tools: [{ id: "tool_1" }, LOOKUP],
};
const SOURCE = {
  type: "responses",
  model: "lab/small",
  source: { type: "file_id", id: "file-1" },
  input_messages: { type: "template", template: TEMPLATE },
  sampling_params: SAMPLING,
};
const run = (data_source: object, given: Partial<EvalRun> = {}) =>
  ({
    model: "lab/small",
    samples_per_row: 2,
    metadata: { commit: "abc" },
    data_source,
    ...given,
  }) as unknown as EvalRun;

test("a run is ordered again as it was, with what the form has no input for", () => {
  const form = startOf(run(SOURCE), ["answer"]);
  expect(form).toMatchObject({ system: "Be brief.", prompt: "{{item.question}}\nThink.", tools: ["tool_1"] });
  expect(orderOf(form)).toEqual({ samples_per_row: 2, metadata: { commit: "abc" }, data_source: SOURCE });
  expect(carriedWords(form.carried)).toEqual([
    "2 messages before the prompt",
    "top_p 0.9",
    "seed 7",
    'reasoning_effort "low"',
    "text json_schema",
    "the tool lookup",
    "asked for as responses",
    "metadata",
  ]);
  expect(messagePaths(form).prompt).toBe("data_source.input_messages.template[3]");
});

test("a text that is changed takes the place of its blocks, in its message", () => {
  const form = { ...startOf(run(SOURCE), []), prompt: "Why?", system: "" };
  expect(orderOf(form)).toMatchObject({
    data_source: {
      input_messages: { template: [TEMPLATE[1], TEMPLATE[2], { role: "user", content: "Why?", type: "message" }] },
    },
  });
});

test("messages that each item brings are asked for again, and none is made up", () => {
  const input_messages = { type: "item_reference", item_reference: "item.messages" };
  const form = startOf(run({ ...SOURCE, type: "completions", input_messages, sampling_params: null }), ["question"]);
  expect(orderOf(form)).toMatchObject({ data_source: { type: "completions", input_messages, sampling_params: {} } });
  expect(isWhole({ ...form, prompt: "" })).toBe(true);
  expect(carriedWords(form.carried)).toEqual(["each item's own messages, item.messages", "metadata"]);
  expect(isWhole({ ...form, prompt: "", carried: NOTHING })).toBe(false);
});

test("what is shown to nobody, or has more digits than a browser keeps, is not ordered but told", () => {
  const secret = { ...LOOKUP, name: "hush", headers: { "X-Key": "**********" } };
  const carried = carriedFrom(
    run({
      ...SOURCE,
      source: { type: "file_content", content: [] },
      sampling_params: { seed: 2 ** 60, n: 2, tools: [secret, LOOKUP] },
    }),
  );
  expect(carried).toMatchObject({ sampling: {}, tools: [LOOKUP] });
  expect(carried.leftOut).toEqual([
    "its items, which came with the order",
    "the tool hush, whose secrets are shown to nobody",
    "its seed, which has more digits than a browser keeps",
  ]);
});
