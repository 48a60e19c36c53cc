/** The rollouts of a group side by side: what each was worth, and where they part. */
import type { Block, Turn } from "./conversation";
import { areEqual } from "./equal_rewards";
import { plural } from "./format";

/** A row's rollouts in one step by group: a step takes a row in two epochs where its batch is larger than its rows. */
export function byEpoch<T extends { epoch: number }>(rollouts: readonly T[]): [epoch: number, group: T[]][] {
  const epochs = [...new Set(rollouts.map((rollout) => rollout.epoch))].toSorted((a, b) => a - b);
  return epochs.map((epoch) => [epoch, rollouts.filter((rollout) => rollout.epoch === epoch)]);
}

/** As in training: reward minus the graded rewards' mean, over their deviation where `isScaled`; null without signal. */
export function advantages(rewards: readonly (number | null)[], isScaled: boolean): (number | null)[] {
  const graded = rewards.filter((reward) => reward !== null);
  if (graded.length < 2 || areEqual(graded)) return rewards.map(() => null);
  const mean = graded.reduce((sum, reward) => sum + reward, 0) / graded.length;
  const deviation = Math.sqrt(graded.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / (graded.length - 1));
  const scale = isScaled ? deviation + STD_EPSILON : 1;
  return rewards.map((reward) => (reward === null ? null : (reward - mean) / scale));
}

const STD_EPSILON = 1e-4;

/** What a turn says and does, whatever its ids are. */
export function said(turn: Turn): string {
  return JSON.stringify(turn.blocks.map(content));
}

function content(block: Block): unknown {
  return block.kind === "call" ? [block.name, block.arguments, block.output] : [block.kind, block.text];
}

/** The number of the first turn in which two of the conversations differ; null where all are the same to the end. */
export function firstDifference(conversations: readonly (readonly Turn[])[]): number | null {
  const longest = Math.max(0, ...conversations.map((turns) => turns.length));
  for (let i = 0; i < longest; i += 1) {
    const there = new Set(conversations.map((turns) => (turns[i] ? said(turns[i]!) : "")));
    if (there.size > 1) return conversations.find((turns) => turns[i])?.[i]?.number ?? i;
  }
  return null;
}

/** Where the rollouts of a group that are shown part, in words. */
export function partingOf(turn: number | null, count: number, { shown, all }: { shown: number; all: number }): string {
  const some = shown < all ? `The first ${shown}` : null;
  if (turn === null) return `${some ?? "All"} say and hear the same to the end.`;
  return `${some ?? "They"} part at turn ${turn}, in ${plural(count, "way")}.`;
}

/** For each conversation a letter: those that go the same way up to and including the turn share one. */
export function ways(conversations: readonly (readonly Turn[])[], turn: number): string[] {
  const known = new Map<string, string>();
  return conversations.map((turns) => {
    const path = JSON.stringify(turns.filter((one) => one.number <= turn).map(said));
    const way = known.get(path) ?? String.fromCharCode(65 + (known.size % 26));
    known.set(path, way);
    return way;
  });
}
