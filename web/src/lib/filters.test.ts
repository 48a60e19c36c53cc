import { describe, expect, it } from "vitest";
import { changed, formatFilter, hiddenFilters, parseFilter } from "./filters";

describe("a filter in the address", () => {
  it("comes back as it was", () => {
    const search =
      "?split=train&from_step=3&to_step=9&row=4&outcome=graded&min_reward=-0.5&ended=max_turns&tool=search&q=net+inc*&sort=reward&order=asc";
    expect(formatFilter(parseFilter(search))).toBe(search);
    expect(parseFilter(search)).toMatchObject({ row_index: 4, stop_reason: "max_turns", q: "net inc*" });
  });

  it("leaves out what makes no sense", () => {
    expect(parseFilter("?split=all&step=-1&min_reward=high&ended=never&sort=price&order=desc&other=1")).toEqual({});
    expect(formatFilter({})).toBe("");
  });

  it("loses a field that is emptied", () => {
    expect(changed({ step: 3, q: "tax" }, "step", " ")).toEqual({ q: "tax" });
    expect(changed({ q: "tax" }, "max_reward", "0.25")).toEqual({ q: "tax", max_reward: 0.25 });
  });

  it("tells what is in force out of sight", () => {
    expect(hiddenFilters({ split: "train", stop_reason: "max_turns", min_tokens: 7 })).toEqual([
      ["stop_reason", "ended max turns"],
      ["min_tokens", "tokens from 7"],
    ]);
  });
});
