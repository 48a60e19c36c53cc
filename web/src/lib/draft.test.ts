import { describe, expect, test } from "vitest";
import { job } from "../testing/records";
import { type Draft, NEW_DRAFT, NEW_TOOL, newLeaf } from "./draft";
import { draftOf } from "./draft_from_job";
import { atField, toOrder, unfinished } from "./draft_order";

const draft = (given: Partial<Draft>): Draft => ({ ...NEW_DRAFT, model: "tiny", training_file: "file-1", ...given });
const reinforcement = (of: Draft) => (toOrder(of).method as { reinforcement: Record<string, unknown> }).reinforcement;

describe("an order", () => {
  test("holds what was typed and leaves out what was not", () => {
    expect(toOrder(draft({}))).toEqual({
      model: "tiny",
      training_file: "file-1",
      method: {
        type: "reinforcement",
        reinforcement: {
          grader: {
            type: "string_check",
            input: "{{sample.output_text}}",
            operation: "eq",
            reference: "{{item.answer}}",
          },
        },
      },
    });
  });

  test("has numbers where numbers were typed, and leaves it to the API to refuse the rest", () => {
    const told = reinforcement(
      draft({ hyperparameters: { batch_size: " 8 ", n_epochs: "two", beta: "" }, max_episode_steps: "5" }),
    );
    expect(told).toMatchObject({ hyperparameters: { batch_size: 8, n_epochs: "two" }, max_episode_steps: 5 });
    expect(told.hyperparameters).not.toHaveProperty("beta");
    expect(toOrder(draft({ seed: "9007199254740991" })).seed).toBe(9007199254740991);
    expect(toOrder(draft({ seed: "9007199254740993" })).seed).toBe("9007199254740993");
  });

  test("names registered tools by their ids and others in full", () => {
    const typed = { ...NEW_TOOL, name: "cat", server_url: "http://c", parameters: '{"type": "object"}' };
    const headers = [
      { name: "X-Key", value: "k" },
      { name: "", value: "no name" },
    ];
    expect(
      reinforcement(
        draft({
          tools: [
            { ...NEW_TOOL, registered: "tool_1" },
            { ...typed, headers },
          ],
        }),
      ).tools,
    ).toEqual([
      { id: "tool_1" },
      { name: "cat", server_url: "http://c", parameters: { type: "object" }, headers: { "X-Key": "k" } },
    ]);
    expect(reinforcement(draft({ tools: [{ ...typed, parameters: "{" }] })).tools).toMatchObject([{ parameters: "{" }]);
  });

  test("holds a grader of parts, their lists and messages", () => {
    const label = {
      ...newLeaf("label_model"),
      values: { model: "judge", labels: "good\n\n bad ", passing_labels: "good" },
    };
    const score = { ...newLeaf("score_model"), values: { model: "judge", range: "0, 5" } };
    const parts = [
      { name: "label", leaf: label },
      { name: "score", leaf: score },
    ];
    const grader = { ...NEW_DRAFT.grader, kind: "multi" as const, parts, formula: "label + score" };
    expect(reinforcement(draft({ grader })).grader).toMatchObject({
      type: "multi",
      calculate_output: "label + score",
      graders: {
        label: { labels: ["good", "bad"] },
        score: { range: [0, 5], input: [{ role: "system" }, { role: "user" }] },
      },
    });
  });
});

test("what is missing is told before anybody is asked", () => {
  expect(unfinished(NEW_DRAFT)).toEqual(["Choose a base model.", "Choose a dataset to train on."]);
  expect(unfinished(draft({}))).toEqual([]);
  const headers = [{ name: "X-Key", value: "" }];
  expect(unfinished(draft({ tools: [{ ...NEW_TOOL, headers }] }))).toEqual([expect.stringContaining("X-Key")]);
  expect(unfinished(draft({ tools: [{ ...NEW_TOOL, registered: "tool_1", headers }] }))).toEqual([]);
  expect(unfinished(draft({ more: "[1]" }))).toEqual([expect.stringContaining("no JSON object")]);
});

describe("a clone", () => {
  const method = {
    type: "reinforcement",
    reinforcement: {
      grader: {
        type: "endpoint",
        name: "grader-ob-1",
        url: "http://g",
        headers: { Authorization: "**********" },
        timeout_s: 5,
      },
      tools: [
        { id: "tool_1", name: "search", server_url: "http://s" },
        { name: "cat", server_url: "http://c", headers: null, retry: "unsafe" },
      ],
      hyperparameters: {
        batch_size: 4,
        n_epochs: "auto",
        reasoning_effort: "default",
        policy_pin: "rollout",
        max_staleness: "auto",
        future: 3,
      },
      max_episode_steps: 9,
      budgets: { max_tokens: 100 },
      response_format: null,
    },
  };

  test("orders the same again, but for what nobody is shown", () => {
    const cloned = draftOf(
      job({ id: "ftjob-ob-1", method: method as never, validation_file: "file-2", metadata: { a: "b" } }),
    );
    expect(unfinished(cloned)).toEqual([expect.stringContaining("Authorization")]);
    cloned.grader.leaf.headers[0]!.value = "again";
    expect(toOrder(cloned)).toEqual({
      model: "starter",
      training_file: "file-1",
      validation_file: "file-2",
      metadata: { a: "b" },
      method: {
        type: "reinforcement",
        reinforcement: {
          grader: { type: "endpoint", url: "http://g", headers: { Authorization: "again" }, timeout_s: 5 },
          tools: [{ id: "tool_1" }, { name: "cat", server_url: "http://c", retry: "unsafe" }],
          hyperparameters: { batch_size: 4, max_staleness: "auto", future: 3 },
          max_episode_steps: 9,
          budgets: { max_tokens: 100 },
        },
      },
    });
  });

  test("keeps parts of a grader, messages and lists", () => {
    const parts = {
      score: { type: "score_model", model: "judge", range: [0, 5], input: [{ role: "user", content: "{{item.a}}" }] },
      label: {
        type: "label_model",
        model: "judge",
        labels: ["a", "b"],
        passing_labels: ["a"],
        input: [{ role: "user", content: ["x"] }],
      },
    };
    const grader = { type: "multi", name: "mine", graders: parts, calculate_output: "score" };
    const cloned = draftOf(job({ method: { type: "reinforcement", reinforcement: { grader } } as never }));
    expect(reinforcement(cloned).grader).toEqual(grader);
  });
});

test("a field is told what is wrong with it without being told its name", () => {
  expect(atField("Missing required parameter: 'method.reinforcement.grader.model'.")).toBe("This is needed.");
  expect(atField("Invalid 'seed': must be a whole number.")).toBe("Must be a whole number.");
  expect(atField("The file 'file-1' does not exist.")).toBe("The file 'file-1' does not exist.");
});
