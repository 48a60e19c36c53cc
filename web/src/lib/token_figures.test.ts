import { describe, expect, it } from "vitest";
import type { Token } from "../api/types";
import { details, explained, FIGURES, levelOf, levels, nextStriking, type OfRollout } from "./token_figures";

const ROLLOUT: OfRollout = { promptTokens: 2, advantage: -0.75 };

function sampled(logprob: number | null, ratio: number | null = null): Token {
  return { id: "5", token_id: 42, text: "x", is_sampled: true, logprob, importance_ratio: ratio };
}

const GIVEN: Token = { ...sampled(null), is_sampled: false };
const level = (figure: "logprob" | "ratio", token: Token) => levelOf(figure, token, 5, ROLLOUT).name;

describe("levelOf", () => {
  it("tells the prompt, the policy and all others apart", () => {
    expect(levelOf("writer", GIVEN, 1, ROLLOUT).label).toBe("prompt");
    expect(levelOf("writer", GIVEN, 2, ROLLOUT).label).toBe("tools and template");
    expect(levelOf("writer", sampled(-1), 2, ROLLOUT).label).toBe("the policy");
  });

  it("grows with how unlikely a token was", () => {
    expect([0, -0.1, -0.2, -1, -4, -9].map((logprob) => level("logprob", sampled(logprob)))).toEqual([
      "p-0",
      "p-0",
      "p-1",
      "p-2",
      "p-3",
      "p-4",
    ]);
  });

  it("parts ratios by how far they are from 1, to either side", () => {
    expect([2, 1.5, 1.02, 1, 0.995, 0.98, 0.6, 0.1].map((ratio) => level("ratio", sampled(-1, ratio)))).toEqual([
      "up-3",
      "up-2",
      "up-1",
      "even",
      "even",
      "down-1",
      "down-2",
      "down-3",
    ]);
  });

  it("takes the rollout's advantage for all that it sampled", () => {
    const name = (advantage: number | null) =>
      levelOf("advantage", sampled(-1), 5, { promptTokens: 2, advantage }).name;
    expect([1.2, 0.5, 0.1, 0, -0.1, -0.75, -2, null].map(name)).toEqual([
      "up-3",
      "up-2",
      "up-1",
      "even",
      "down-1",
      "down-2",
      "down-3",
      "unknown",
    ]);
  });

  it("claims nothing of what was not sampled, or is not known", () => {
    for (const figure of ["logprob", "ratio", "advantage"] as const) {
      expect(levelOf(figure, GIVEN, 5, ROLLOUT).label).toBe("not sampled");
    }
    expect(level("logprob", sampled(null))).toBe("unknown");
    expect(level("ratio", sampled(-1, null))).toBe("unknown");
  });

  it("has only levels that the legend lists", () => {
    for (const { value } of FIGURES) {
      const names = new Set(levels(value).map((one) => one.name));
      for (const token of [GIVEN, sampled(-1, 1), sampled(-9, 7)]) {
        expect(names).toContain(levelOf(value, token, 5, ROLLOUT).name);
      }
      expect(names.size).toBe(levels(value).length);
    }
  });
});

describe("nextStriking", () => {
  const tokens = [GIVEN, sampled(-0.1, 1), sampled(-3, 1), GIVEN, sampled(-0.1, 1.5), sampled(-9, 0.4)];
  const places = (figure: "logprob" | "ratio" | "writer" | "advantage", by: 1 | -1) => {
    const found: number[] = [];
    let place = nextStriking(figure, tokens, null, by, ROLLOUT);
    while (place !== null) {
      found.push(place);
      place = nextStriking(figure, tokens, place, by, ROLLOUT);
    }
    return found;
  };

  it("goes through what stands out, both ways", () => {
    expect(places("logprob", 1)).toEqual([2, 5]);
    expect(places("ratio", 1)).toEqual([4, 5]);
    expect(places("logprob", -1)).toEqual([5, 2]);
  });

  it("goes to where the policy begins to write, where all it sampled is alike", () => {
    expect(places("writer", 1)).toEqual([1, 4]);
    expect(places("advantage", -1)).toEqual([4, 1]);
    expect(nextStriking("writer", [GIVEN], null, 1, ROLLOUT)).toBeNull();
  });
});

describe("in words", () => {
  it("tells all that is known of a token", () => {
    expect(details(sampled(-0.5, 1.002), 9, ROLLOUT)).toEqual([
      "token 10",
      "id 42",
      "by the policy",
      "log-probability −0.500 (61 %)",
      "importance ratio 1.0020",
      "advantage −0.750",
    ]);
    expect(details(GIVEN, 0, ROLLOUT)).toEqual(["token 1", "id 42", "by the prompt"]);
  });

  it("says which way an advantage pulls, and why there may be none", () => {
    expect(explained("advantage", -0.75)).toContain("less likely");
    expect(explained("advantage", 0.75)).toContain("made more likely");
    expect(explained("advantage", 0)).toContain("made neither more nor less likely");
    expect(explained("ratio", null)).toContain("No step has trained on this rollout");
    expect(explained("logprob", null)).not.toContain("No step");
  });
});
