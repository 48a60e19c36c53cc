import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import type { Message } from "../api/types";
import { curl, sdkMessages } from "./trace_copy";

const CALL = { call_id: "call_1", name: "search", arguments: '{"q": "it\'s"}' };

describe("a trace for other programs", () => {
  it("is a list of chat messages", () => {
    const messages = [
      { role: "user", content: "?", tool_calls: [], tool_call_id: null, name: null, reasoning_content: "" },
      { role: "assistant", content: "", tool_calls: [CALL], tool_call_id: null, name: null, reasoning_content: "" },
      { role: "tool", content: "4", tool_calls: [], tool_call_id: "call_1", name: "search", reasoning_content: "" },
    ] satisfies Message[];
    expect(sdkMessages(messages)).toEqual([
      { role: "user", content: "?" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "call_1", type: "function", function: { name: "search", arguments: CALL.arguments } }],
      },
      { role: "tool", content: "4", tool_call_id: "call_1" },
    ]);
  });

  it("is a command of which a shell runs nothing but curl, without header values", () => {
    const command = curl({
      url: "https://tools.test/search?a='$(touch x)'",
      headers: ["Authorization"],
      callId: "call_1",
      name: "search",
      arguments: CALL.arguments,
      traceId: "trace_1",
      item: { question: "`id` $HOME" },
    });
    const shown = execFileSync("sh", ["-c", command.replace(/^curl/, "printf '%s\\n'")])
      .toString()
      .split("\n");
    expect(shown.slice(0, 3)).toEqual(["-X", "POST", "https://tools.test/search?a='$(touch x)'"]);
    expect(shown).toContain("Authorization: <your value>");
    const body = JSON.parse(shown.at(-2) ?? "") as Record<string, unknown>;
    expect(body).toMatchObject({ arguments: CALL.arguments, item: { question: "`id` $HOME" }, trace_id: "trace_1" });
  });
});
