import { describe, expect, it } from "vitest";
import { summary } from "../testing/records";
import type { Turn } from "./conversation";
import { advantages, byEpoch, firstDifference, partingOf, ways } from "./parting";

const text = (number: number, said: string): Turn => ({
  number,
  blocks: [{ kind: "text", role: "assistant", text: said, isPrompt: number === 0 }],
});
const call = (number: number, id: string, output: string | null): Turn => ({
  number,
  blocks: [{ kind: "call", id, name: "search", arguments: "{}", output, number: 1 }],
});

describe("a group side by side", () => {
  it("has the advantages of training, failures left out", () => {
    const found = advantages([1, 0, null, 0.5], true);
    expect(found[0]).toBeCloseTo(0.5 / (0.5 + 1e-4));
    expect(found[1]).toBeCloseTo(-0.5 / (0.5 + 1e-4));
    expect(found.slice(2)).toEqual([null, 0]);
    expect(advantages([0.5, 0.5, 0.5], true)).toEqual([null, null, null]);
    expect(advantages([1, null], true)).toEqual([null, null]);
    expect(advantages([1e9 * (0.6 + 0.3 + 0.1), 1e9], true)).toEqual([null, null]);
    expect(advantages([0, 1.1e-8], true)).not.toEqual([null, null]);
    expect(advantages([1, 0, null, 0.5], false)).toEqual([0.5, -0.5, null, 0]);
  });

  it("is another one in another epoch, with advantages of its own", () => {
    const rollouts = [summary("a", { epoch: 1, reward: 0 }), summary("b"), summary("c", { epoch: 1, reward: 0 })];
    const groups = byEpoch([...rollouts, summary("d")]);
    expect(groups.map(([epoch, list]) => [epoch, list.map((one) => one.id)])).toEqual([
      [0, ["b", "d"]],
      [1, ["a", "c"]],
    ]);
    const rewards = groups.map(([, list]) => list.map((one) => one.reward));
    expect(rewards.map((some) => advantages(some, true))).toEqual([
      [null, null],
      [null, null],
    ]);
  });

  it("is told of as far as it is shown", () => {
    expect(partingOf(null, 0, { shown: 8, all: 8 })).toBe("All say and hear the same to the end.");
    expect(partingOf(null, 0, { shown: 8, all: 16 })).toBe("The first 8 say and hear the same to the end.");
    expect(partingOf(2, 3, { shown: 8, all: 8 })).toBe("They part at turn 2, in 3 ways.");
    expect(partingOf(2, 3, { shown: 8, all: 16 })).toBe("The first 8 part at turn 2, in 3 ways.");
  });

  it("parts where the first of them says or hears something else, whatever the ids of calls", () => {
    const same = [text(0, "?"), call(1, "a", "4"), text(2, "four")];
    const other = [text(0, "?"), call(1, "b", "4"), text(2, "five")];
    expect(firstDifference([same, same])).toBeNull();
    expect(firstDifference([same, other])).toBe(2);
    expect(firstDifference([same, [text(0, "?"), call(1, "c", "5")]])).toBe(1);
    expect(firstDifference([same, same.slice(0, 2)])).toBe(2);
    expect(ways([same, other, same], 2)).toEqual(["A", "B", "A"]);
    expect(firstDifference([])).toBeNull();
  });
});
