import { describe, expect, it } from "vitest";
import type { Token } from "../api/types";
import { chunked, chunkOf, moved, visible } from "./tokens";

function token(text: string): Token {
  return { id: "0", token_id: 7, text, is_sampled: true, logprob: -1, importance_ratio: null };
}

describe("visible", () => {
  it("shows line ends and tabs, and keeps them", () => {
    expect(visible(token("a\n\tb"))).toBe("a⏎\n⇥\tb");
  });

  it("spells out what could not be seen, or would turn around what stands beside it", () => {
    expect(visible(token("\u0000\u001b[31m\u007f"))).toBe("␀␛[31m␡");
    expect(visible(token("a\u202eb\u2066\u200b\ufeff"))).toBe("a\\u{202e}b\\u{2066}\\u{200b}\\u{feff}");
    expect(visible(token("\ud800 \u2028"))).toBe("\\u{d800} \\u{2028}");
  });

  it("leaves all other text alone", () => {
    for (const text of ["<b>&amp;</b>", " שלום", "𓀀 é 😀", "\\xf0\\x9f"]) expect(visible(token(text))).toBe(text);
  });

  it("names a token without a text by its id", () => {
    expect(visible(token(""))).toBe("⟨7⟩");
  });
});

describe("chunked", () => {
  it("loses no token, and ends at line ends where there are some", () => {
    const tokens = Array.from({ length: 2000 }, (_, i) => token(i % 50 === 49 ? ".\n" : "a"));
    const chunks = chunked(tokens);
    expect(chunks.flatMap((chunk) => chunk.tokens)).toEqual(tokens);
    expect(chunks.every((chunk) => chunk.tokens.at(-1)?.text === ".\n")).toBe(true);
    expect(chunks.map((chunk) => chunk.first)).toEqual(chunks.map((_, i) => 150 * i));
  });

  it("cuts a line that goes on and on", () => {
    const chunks = chunked(Array.from({ length: 1000 }, () => token("a")));
    expect(chunks.map((chunk) => chunk.tokens.length)).toEqual([360, 360, 280]);
    expect([0, 359, 360, 999].map((place) => chunkOf(chunks, place))).toEqual([0, 0, 1, 2]);
    expect(chunked([])).toEqual([]);
  });
});

describe("moved", () => {
  it("goes from token to token and stays among them", () => {
    expect(moved("ArrowRight", null, 5)).toBe(0);
    expect(moved("ArrowRight", 4, 5)).toBe(4);
    expect(moved("ArrowLeft", 3, 5)).toBe(2);
    expect(moved("ArrowLeft", 0, 5)).toBe(0);
    expect([moved("Home", 3, 5), moved("End", 3, 5)]).toEqual([0, 4]);
    expect([moved("x", 3, 5), moved("End", null, 0)]).toEqual([null, null]);
  });
});
