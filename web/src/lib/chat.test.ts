import { expect, test } from "vitest";
import { type ChatEvent, completionReader } from "../api/chat";
import { beginExchange, type Exchange, history, withEvent } from "./chat";

const USAGE = { prompt_tokens: 10, cached_tokens: 0, completion_tokens: 5, reasoning_tokens: 0 };
const after = (...events: ChatEvent[]): Exchange => events.reduce(withEvent, beginExchange("How much?"));
const end = (stop_reason: "completed" | "max_turns" = "completed"): ChatEvent => ({
  type: "end",
  conversation: { messages: [{ role: "assistant", content: "7" }], stop_reason, usage: USAGE, duration_s: 1.25 },
});
const RESULT = { call_id: "c1", output: "7", error_code: null, status: 200, attempts: 1, latency_s: 0.125 };
const CALL: ChatEvent = { type: "call", turn: 0, call_id: "c1", name: "search", arguments: "{}" };

test("text grows, and a finished turn says what of it was text", () => {
  const growing = after({ type: "text", turn: 0, text: "Let " }, { type: "text", turn: 0, text: "me <call>" });
  expect(growing.turns).toEqual([{ text: "Let me <call>", thought: null, calls: [] }]);
  const done = withEvent(growing, { type: "turn", turn: 0, content: "Let me", reasoning_content: "hm" });
  expect(done.turns).toEqual([{ text: "Let me", thought: "hm", calls: [] }]);
});

test("a result stands by its call, with how it went", () => {
  const asked = after(CALL);
  expect(asked.turns[0]?.calls[0]?.output).toBeNull();
  const told = withEvent(asked, { type: "result", ...RESULT, attempts: 2 });
  expect(told.turns[0]?.calls[0]).toMatchObject({ name: "search", output: "7", note: "HTTP 200, 2 attempts, 0.13 s" });
});

test("turns stand in their order, whatever is told first of them", () => {
  const told = after(CALL, { type: "result", ...RESULT }, { type: "text", turn: 1, text: "7" }, end("max_turns"));
  expect(told.turns.map((turn) => turn.text)).toEqual(["", "7"]);
  expect(told.end).toBe("stopped: max turns, 10 tokens read, 5 written, 1.3 s");
});

test("what failed is not sent along the next time, what went well is whole", () => {
  const failed = after({ type: "failure", failure: { stage: "tool", code: "timeout", message: "no reply" } }, end());
  expect(failed.failure).toBe("no reply (tool, timeout)");
  const sent = history(" Be brief. ", [after(end()), failed, after(CALL)], "And now?");
  expect(sent).toEqual([
    { role: "developer", content: " Be brief. " },
    { role: "user", content: "How much?" },
    { role: "assistant", content: "7" },
    { role: "user", content: "And now?" },
  ]);
  expect(history("  ", [], "x")).toEqual([{ role: "user", content: "x" }]);
});

test("a chat completion is a conversation of one turn", () => {
  let exchange = beginExchange("?");
  const read = completionReader((event) => (exchange = withEvent(exchange, event)));
  const chunk = (content: string, finish_reason: string | null = null) =>
    read(JSON.stringify({ choices: [{ delta: { content }, finish_reason }] }));
  chunk("Sev");
  chunk("en", "length");
  read(JSON.stringify({ choices: [{ delta: { reasoning_content: "3 + 4" } }] }));
  expect(read(JSON.stringify({ choices: [] }))).toBeNull();
  expect(exchange.added).toBeNull();
  read("[DONE]");
  expect(exchange).toMatchObject({
    turns: [{ text: "Seven", thought: "3 + 4" }],
    added: [{ role: "assistant", content: "Seven" }],
  });
  expect(exchange.end).toContain("stopped: max tokens");
  expect(read(JSON.stringify({ error: { message: "gone", code: "server_error" } }))?.message).toBe("gone");
});
