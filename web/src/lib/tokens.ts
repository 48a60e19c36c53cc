/** A rollout's tokens as text that can be looked at: nothing in it is hidden, nothing of it moves what stands beside it. */
import type { Token } from "../api/types";

export interface Chunk {
  /** Place of its first token. */
  first: number;
  tokens: readonly Token[];
}

const FEW = 120;
const MANY = 360;
const NEWLINE = "⏎\n";
const CONTROL_PICTURES = 0x2400;
const DELETE = 0x7f;
/** What has no picture of its own: controls, formats such as those of writing direction, private and lone characters. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** As it can be read: line ends and tabs are shown and kept, what cannot be seen is spelled out. */
export function visible(token: Pick<Token, "text" | "token_id">): string {
  if (token.text === "") return `⟨${token.token_id}⟩`;
  return token.text.replace(UNSEEN, (character) => {
    if (character === "\n") return NEWLINE;
    if (character === "\t") return "⇥\t";
    const code = character.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(CONTROL_PICTURES + code);
    if (code === DELETE) return "␡";
    return `\\u{${code.toString(16)}}`;
  });
}

/** In parts that are drawn one by one: each ends at a line end, unless there is none for long. */
export function chunked(tokens: readonly Token[]): Chunk[] {
  const chunks: Chunk[] = [];
  let first = 0;
  for (let end = 1; end <= tokens.length; end++) {
    const length = end - first;
    const isLineEnd = length >= FEW && tokens[end - 1]?.text.endsWith("\n") === true;
    if (isLineEnd || length >= MANY || end === tokens.length) {
      chunks.push({ first, tokens: tokens.slice(first, end) });
      first = end;
    }
  }
  return chunks;
}

/** Where a key leads from a token; null for other keys. */
export function moved(key: string, current: number | null, count: number): number | null {
  const last = count - 1;
  const wanted = {
    ArrowRight: current === null ? 0 : current + 1,
    ArrowLeft: current === null ? last : current - 1,
    Home: 0,
    End: last,
  }[key];
  return wanted === undefined || count === 0 ? null : Math.min(last, Math.max(0, wanted));
}

/** The chunk that a token is in. */
export function chunkOf(chunks: readonly Chunk[], place: number): number {
  return chunks.findLastIndex((chunk) => chunk.first <= place);
}
