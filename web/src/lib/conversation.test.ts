import { describe, expect, test } from "vitest";
import type { Message } from "../api/types";
import { callIds, excerpt, isToolError, splitThought, toTurns } from "./conversation";

function message(role: Message["role"], content: string, given: Partial<Message> = {}): Message {
  return { role, content, reasoning_content: "", tool_calls: [], tool_call_id: null, name: null, ...given };
}

const call = (id: string, name: string) => ({ call_id: id, name, arguments: "{}" });

describe("turns", () => {
  const messages = [
    message("developer", "Be brief."),
    message("user", "How much?"),
    message("assistant", "<think>two at once</think>Looking.", { tool_calls: [call("1", "search"), call("2", "cat")] }),
    message("tool", "Error: no such page", { tool_call_id: "2", name: "cat" }),
    message("tool", "found", { tool_call_id: "1", name: "search" }),
    message("assistant", "42"),
  ];

  test("each output stands at its own call, whatever the order", () => {
    const turns = toTurns({ messages, turns: 2 });
    expect(turns.map((turn) => turn.number)).toEqual([0, 1, 2]);
    expect([...callIds(turns)]).toEqual(["1", "2"]);
    expect(turns[1]?.blocks).toEqual([
      { kind: "thought", text: "two at once" },
      { kind: "text", role: "assistant", text: "Looking.", isPrompt: false },
      { kind: "call", id: "1", name: "search", arguments: "{}", output: "found", number: 1 },
      { kind: "call", id: "2", name: "cat", arguments: "{}", output: "Error: no such page", number: 2 },
    ]);
  });

  test("a thought stands before what was said, wherever it was told", () => {
    const thought = message("assistant", "42", { reasoning_content: "six times seven" });
    expect(toTurns({ messages: [message("user", "?"), thought], turns: 1 })[1]?.blocks).toEqual([
      { kind: "thought", text: "six times seven" },
      { kind: "text", role: "assistant", text: "42", isPrompt: false },
    ]);
  });

  test("a call without an answer ends a broken rollout", () => {
    const broken = toTurns({ messages: messages.slice(0, 3), turns: 1 });
    expect(broken[1]?.blocks.at(-1)).toMatchObject({ kind: "call", name: "cat", output: null });
  });

  test("assistant messages of the row belong to the prompt", () => {
    const turns = toTurns({
      messages: [message("user", "Hi"), message("assistant", "Hello"), ...messages.slice(1)],
      turns: 2,
    });
    expect(turns[0]?.blocks.map((block) => block.kind === "text" && block.text)).toEqual(["Hi", "Hello", "How much?"]);
    expect(turns).toHaveLength(3);
  });

  test("calls of the row are none of the policy's", () => {
    const turns = toTurns({
      messages: [message("assistant", "", { tool_calls: [call("grade", "search")] }), ...messages],
      turns: 2,
    });
    expect(turns[0]?.blocks[0]).toMatchObject({ kind: "call", id: "grade" });
    expect([...callIds(turns)]).toEqual(["1", "2"]);
  });

  test("nothing sampled: all is prompt", () => {
    expect(toTurns({ messages: messages.slice(0, 2), turns: 0 })).toHaveLength(1);
  });

  test("each output stands at its own call where turns use the same ids again", () => {
    const turns = toTurns({
      messages: [
        message("user", "?"),
        message("assistant", "", { tool_calls: [call("call_0", "search"), call("call_0", "list")] }),
        message("tool", "of search", { tool_call_id: "call_0" }),
        message("tool", "of list", { tool_call_id: "call_0" }),
        message("assistant", "", { tool_calls: [call("call_0", "cat")] }),
        message("tool", "of cat", { tool_call_id: "call_0" }),
        message("tool", "of none", { tool_call_id: "call_0" }),
        message("assistant", "", { tool_calls: [call("call_0", "cat")] }),
      ],
      turns: 3,
    });
    expect(turns.slice(1).map((turn) => turn.blocks)).toMatchObject([
      [{ output: "of search" }, { output: "of list" }],
      [{ output: "of cat" }, { role: "tool", text: "of none" }],
      [{ output: null }],
    ]);
  });

  test("an output that answers no call is still shown", () => {
    const turns = toTurns({
      messages: [message("user", "?"), message("tool", "stray", { tool_call_id: "9" })],
      turns: 0,
    });
    expect(turns[0]?.blocks.at(-1)).toMatchObject({ role: "tool", text: "stray" });
  });
});

test("thoughts are split off, finished or not", () => {
  expect(splitThought("<think>a\nb</think>\n\nc")).toEqual(["a\nb", "c"]);
  expect(splitThought("<think>cut off")).toEqual(["cut off", ""]);
  expect(splitThought("plain")).toEqual(["", "plain"]);
});

test("long outputs are folded, nearly short ones are not", () => {
  const lines = (amount: number) => Array.from({ length: amount }, (_, i) => `line ${i}`).join("\n");
  expect(excerpt(lines(20)).hiddenLines).toBe(0);
  expect(excerpt(lines(30))).toEqual({ head: lines(16), hiddenLines: 14 });
  const oneLine = excerpt("x".repeat(5000));
  expect(oneLine.head).toHaveLength(1600);
  expect(oneLine.hiddenLines).toBe(1);
});

test("errors shown to the model", () => {
  expect(isToolError("Error: HTTP 404")).toBe(true);
  expect(isToolError("The error: none")).toBe(false);
});
