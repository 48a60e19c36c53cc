import { describe, expect, it } from "vitest";
import type { Turn } from "./conversation";
import { blockCount, firstBlocks, openAt, parts, searched } from "./trace_search";

const turns: Turn[] = [
  { number: 0, blocks: [{ kind: "text", role: "user", text: "What is the Tax?", isPrompt: true }] },
  {
    number: 1,
    blocks: [
      { kind: "thought", text: "Look it up" },
      { kind: "call", id: "1", name: "search", arguments: '{"q":"x"}', output: "TAX: 4", number: 1 },
      { kind: "call", id: "2", name: "cat", arguments: "{}", output: null, number: 2 },
    ],
  },
];

describe("a long trace", () => {
  it("keeps what holds the text, in calls and replies too", () => {
    const found = searched(turns, "tax");
    expect(found.map((turn) => [turn.number, blockCount([turn])])).toEqual([
      [0, 1],
      [1, 1],
    ]);
    expect(searched(turns, "nothing")).toEqual([]);
    expect(searched(turns, "")).toEqual(turns);
  });

  it("is searched as it is drawn: without escapes, laid out, numbers as they came", () => {
    const call = { kind: "call", id: "1", name: "search", number: 1 } as const;
    const sent = {
      ...call,
      arguments: '{"city":"Z\\u00fcrich"}',
      output: '{"total":1.50,"name":"caf\\u00e9 \\"A\\""}',
    };
    const nested = { ...call, arguments: '{"where":{"city":"Z\\u00fcrich"}}', output: null };
    const found = (find: string) =>
      searched([{ number: 1, blocks: [sent, nested] }], find).flatMap((turn) => turn.blocks);
    expect(found("zürich")).toEqual([sent, nested]);
    expect(found('"total": 1.50')).toEqual([sent]);
    expect(found("café")).toEqual([sent]);
    expect(found("u00fc")).toEqual([]);
  });

  it("shows so many blocks at first, and no more of any turn", () => {
    expect(firstBlocks(turns, 2).map((turn) => turn.blocks.length)).toEqual([1, 1]);
    expect(firstBlocks(turns, 1)).toHaveLength(1);
  });

  it("is cut into what is found and the rest, nothing lost", () => {
    const cut = parts("a Tax, a tax<b>", "tax");
    expect(cut.filter((part) => part.isFound).map((part) => part.text)).toEqual(["Tax", "tax"]);
    expect(cut.map((part) => part.text).join("")).toBe("a Tax, a tax<b>");
    const many = parts("x".repeat(10_000), "x");
    expect(many.length).toBeLessThan(300);
    expect(many.map((part) => part.text).join("")).toHaveLength(10_000);
  });

  it("is opened where the text is, unless its beginning has it", () => {
    const text = `${"a".repeat(5000)}tax`;
    expect(openAt(text, text.slice(0, 1600), "tax")).toBe(4800);
    expect(openAt(text, text.slice(0, 1600), "aa")).toBe(0);
  });
});
