/** What of a long trace is drawn: its beginning, or what holds the text that somebody looks for. */
import type { Block, Turn } from "./conversation";
import { drawnArguments, prettyJson } from "./json_text";

/** Read once, not with every letter that is looked for. */
const READ = new WeakMap<Block, string[]>();

/** Texts of a block that are searched, in lower case: those that the page draws, which may have other characters than what
 * was sent. */
function texts(block: Block): string[] {
  const known = READ.get(block);
  if (known !== undefined) return known;
  const read = drawn(block).map((text) => text.toLowerCase());
  READ.set(block, read);
  return read;
}

function drawn(block: Block): string[] {
  if (block.kind !== "call") return [block.text];
  return [block.name, ...[drawnArguments(block.arguments)].flat(2), prettyJson(block.output ?? "")];
}

/** The turns and blocks that hold a text; all where there is none to look for. */
export function searched(turns: readonly Turn[], find: string): Turn[] {
  if (find === "") return [...turns];
  const wanted = find.toLowerCase();
  return turns
    .map((turn) => ({
      ...turn,
      blocks: turn.blocks.filter((block) => texts(block).some((text) => text.includes(wanted))),
    }))
    .filter((turn) => turn.blocks.length > 0);
}

/** The first so many blocks, in their turns. */
export function firstBlocks(turns: readonly Turn[], most: number): Turn[] {
  const kept: Turn[] = [];
  let left = most;
  for (const turn of turns) {
    if (left <= 0) break;
    kept.push({ ...turn, blocks: turn.blocks.slice(0, left) });
    left -= turn.blocks.length;
  }
  return kept;
}

export function blockCount(turns: readonly Turn[]): number {
  return turns.reduce((sum, turn) => sum + turn.blocks.length, 0);
}

export interface Part {
  text: string;
  isFound: boolean;
}

const MOST_MARKS = 100;

/** A text in parts, those that are looked for apart from the rest. */
export function parts(text: string, find: string): Part[] {
  if (find === "") return [{ text, isFound: false }];
  const found: Part[] = [];
  const [lower, wanted] = [text.toLowerCase(), find.toLowerCase()];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0 && found.length < 2 * MOST_MARKS; at = lower.indexOf(wanted, from)) {
    if (at > from) found.push({ text: text.slice(from, at), isFound: false });
    found.push({ text: text.slice(at, at + wanted.length), isFound: true });
    from = at + wanted.length;
  }
  if (from < text.length) found.push({ text: text.slice(from), isFound: false });
  return found;
}

/** Where a folded text is opened so that what is looked for is in sight: 0 where its beginning will do. */
export function openAt(text: string, head: string, find: string): number {
  const at = find === "" ? -1 : text.toLowerCase().indexOf(find.toLowerCase());
  return at < 0 || at + find.length <= head.length ? 0 : Math.max(0, at - 200);
}
