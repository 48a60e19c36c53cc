import { expect, test } from "vitest";
import type { EvalRun } from "../api/types";
import { messagePaths, orderOf, startOf } from "./run_order";

const EMPTY = startOf(null, ["answer", "question"]);

test("a form begins with the item's question", () => {
  expect(EMPTY).toMatchObject({ prompt: "{{item.question}}", model: "", samples: "1", isSampled: true });
  expect(startOf(null, ["text"]).prompt).toBe("{{item.text}}");
  expect(startOf(null, []).prompt).toBe("");
});

test("a run that is like the last one is ordered as that was", () => {
  const form = { ...EMPTY, fileId: "file-1", model: "lab/small", system: "Be brief.", samples: "4", temperature: "0" };
  const order = orderOf({ ...form, maxTokens: "64", tools: ["tool_1"] });
  const latest = { model: "lab/small", samples_per_row: 4, data_source: order.data_source } as unknown as EvalRun;
  expect(orderOf(startOf(latest, []))).toEqual(order);
  expect(order).toMatchObject({
    samples_per_row: 4,
    data_source: {
      source: { type: "file_id", id: "file-1" },
      sampling_params: { temperature: 0, max_completion_tokens: 64, tools: [{ id: "tool_1" }] },
    },
  });
});

test("what is left empty is left to the platform", () => {
  const order = orderOf({ ...EMPTY, fileId: "file-1", model: " m ", prompt: "{{item.question}}" });
  expect(order).toEqual({
    samples_per_row: 1,
    data_source: {
      type: "completions",
      model: "m",
      source: { type: "file_id", id: "file-1" },
      input_messages: { type: "template", template: [{ role: "user", content: "{{item.question}}" }] },
      sampling_params: {},
    },
  });
});

test("given samples are judged as they stand", () => {
  expect(orderOf({ ...EMPTY, name: " Mine ", fileId: "file-1", isSampled: false })).toEqual({
    name: "Mine",
    data_source: { type: "jsonl", source: { type: "file_id", id: "file-1" } },
  });
});

test("what is no number goes out as it was typed: the API refuses it in its own words", () => {
  const order = orderOf({ ...EMPTY, fileId: "file-1", model: "m", samples: "many", temperature: "hot" });
  expect(order).toMatchObject({ samples_per_row: "many", data_source: { sampling_params: { temperature: "hot" } } });
});

test("a message is found where the order has it", () => {
  const at = (system: string) => messagePaths({ ...EMPTY, system });
  expect(at(" ").prompt).toBe("data_source.input_messages.template[0]");
  expect(at(" ").system).not.toBe(at(" ").prompt);
  expect(at("Be brief.")).toEqual({
    system: "data_source.input_messages.template[0]",
    prompt: "data_source.input_messages.template[1]",
  });
});
