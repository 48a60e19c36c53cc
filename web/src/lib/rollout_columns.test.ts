import { describe, expect, it } from "vitest";
import { COLUMNS, directionOf, type Memory, rememberColumns, resorted, shownColumns } from "./rollout_columns";

function memory(): Memory {
  const kept = new Map<string, string>();
  return { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => void kept.set(key, value) };
}

const column = (id: string) => COLUMNS.find((one) => one.id === id)!;

describe("columns", () => {
  it("are remembered, and the link always stays", () => {
    const browser = memory();
    expect([...shownColumns(browser)]).not.toContain("policy");
    rememberColumns(browser, new Set(["policy", "reward", "long gone"]));
    expect([...shownColumns(browser)]).toEqual(["id", "reward", "policy"]);
  });

  it("sort the largest first, then the smallest, then as before", () => {
    const reward = column("reward");
    const first = resorted({ q: "tax" }, reward);
    expect(first).toEqual({ q: "tax", sort: "reward" });
    const second = resorted(first, reward);
    expect(second).toEqual({ q: "tax", sort: "reward", order: "asc" });
    expect(directionOf(second, reward)).toBe("ascending");
    expect(resorted(second, reward)).toEqual({ q: "tax" });
    expect(resorted(second, column("step"))).toEqual({ q: "tax" });
    expect(resorted({}, column("step"))).toEqual({ order: "asc" });
    expect(directionOf({ sort: "reward" }, column("step"))).toBeNull();
  });
});
