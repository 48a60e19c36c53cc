/** What tokens are coloured by. Each level has a colour and a line of its own, so that no colour has to be told apart. */
import type { Token } from "../api/types";
import { compact, delta, fixed, percent } from "./format";

export type TokenFigure = "writer" | "logprob" | "ratio" | "advantage";

export interface Level {
  /** Class in `tokens.css`. */
  name: string;
  label: string;
}

/** What holds for all tokens of a rollout. */
export interface OfRollout {
  promptTokens: number;
  advantage: number | null;
}

export const FIGURES: readonly { value: TokenFigure; label: string }[] = [
  { value: "writer", label: "Who wrote it" },
  { value: "logprob", label: "Log-probability" },
  { value: "ratio", label: "Importance ratio" },
  { value: "advantage", label: "Advantage" },
];

const PROMPT: Level = { name: "given", label: "prompt" };
const POLICY: Level = { name: "sampled", label: "the policy" };
const OTHERS: Level = { name: "inserted", label: "tools and template" };
const NOT_SAMPLED: Level = { name: "given", label: "not sampled" };
const UNKNOWN: Level = { name: "unknown", label: "sampled, not known" };

/** By the probability that it was sampled with, the most likely first. */
const PROBABILITIES: readonly (Level & { from: number })[] = [
  { from: 0.9, name: "p-0", label: "90 % and more" },
  { from: 0.5, name: "p-1", label: "from 50 %" },
  { from: 0.1, name: "p-2", label: "from 10 %" },
  { from: 0.01, name: "p-3", label: "from 1 %" },
  { from: 0, name: "p-4", label: "below 1 %" },
];
/** Beyond 2, the loss truncates it. */
const RATIOS: readonly (Level & { from: number })[] = [
  { from: 2, name: "up-3", label: "2 and more" },
  { from: 1.1, name: "up-2", label: "from 1.1" },
  { from: 1.01, name: "up-1", label: "from 1.01" },
  { from: 1 / 1.01, name: "even", label: "1, within 1 %" },
  { from: 1 / 1.1, name: "down-1", label: "below 0.99" },
  { from: 0.5, name: "down-2", label: "below 0.91" },
  { from: 0, name: "down-3", label: "below 0.5" },
];
const ADVANTAGES: readonly (Level & { from: number })[] = [
  { from: 1, name: "up-3", label: "1 and more" },
  { from: 0.5, name: "up-2", label: "from 0.5" },
  { from: Number.MIN_VALUE, name: "up-1", label: "above 0" },
  { from: 0, name: "even", label: "0" },
  { from: -0.5, name: "down-1", label: "below 0" },
  { from: -1, name: "down-2", label: "below −0.5" },
  { from: Number.NEGATIVE_INFINITY, name: "down-3", label: "below −1" },
];

/** The level that a token at a place has. */
export function levelOf(figure: TokenFigure, token: Token, place: number, rollout: OfRollout): Level {
  if (figure === "writer") return token.is_sampled ? POLICY : place < rollout.promptTokens ? PROMPT : OTHERS;
  if (!token.is_sampled) return NOT_SAMPLED;
  if (figure === "logprob") return among(PROBABILITIES, token.logprob === null ? null : Math.exp(token.logprob));
  return figure === "ratio" ? among(RATIOS, token.importance_ratio) : among(ADVANTAGES, rollout.advantage);
}

/** Every level of a figure, as the legend lists them. */
export function levels(figure: TokenFigure): readonly Level[] {
  if (figure === "writer") return [PROMPT, POLICY, OTHERS];
  return [...{ logprob: PROBABILITIES, ratio: RATIOS, advantage: ADVANTAGES }[figure], NOT_SAMPLED];
}

const STRIKING: ReadonlySet<string> = new Set(["p-3", "p-4", "up-2", "up-3", "down-2", "down-3"]);

/**
 * The next token, or the one before, that stands out: unlikely, or with a ratio far from 1; where all that is sampled is
 * alike, where the policy begins to write. Null without one.
 */
export function nextStriking(
  figure: TokenFigure,
  tokens: readonly Token[],
  from: number | null,
  by: 1 | -1,
  rollout: OfRollout,
): number | null {
  const start = from === null ? (by > 0 ? 0 : tokens.length - 1) : from + by;
  for (let place = start; place >= 0 && place < tokens.length; place += by) {
    const token = tokens[place];
    if (!token?.is_sampled) continue;
    const stands =
      figure === "logprob" || figure === "ratio"
        ? STRIKING.has(levelOf(figure, token, place, rollout).name)
        : tokens[place - 1]?.is_sampled !== true;
    if (stands) return place;
  }
  return null;
}

/** A figure in a sentence, and why there may be none. */
export function explained(figure: TokenFigure, advantage: number | null): string {
  if (figure === "writer") return "Only what the policy wrote carries gradient.";
  if (figure === "logprob") return "How likely the policy held each token that it sampled.";
  if (advantage === null) {
    return "No step has trained on this rollout: it is an evaluation, it failed, its group's rewards are all equal, or its step is not that far.";
  }
  if (figure === "ratio") {
    return "How much likelier a token was to the trainer, before the update, than to the sampler: 1 where both agree.";
  }
  return `The whole rollout has one advantage, ${delta(advantage)}: what it sampled was made ${likelier(advantage)} likely.`;
}

function likelier(advantage: number): string {
  if (advantage === 0) return "neither more nor less";
  return advantage < 0 ? "less" : "more";
}

/** All that is known of a token, in words. */
export function details(token: Token, place: number, rollout: OfRollout): string[] {
  const writer = levelOf("writer", token, place, rollout).label;
  const told = [`token ${place + 1}`, `id ${token.token_id}`, `by ${writer === "prompt" ? "the prompt" : writer}`];
  if (!token.is_sampled) return told;
  if (token.logprob !== null) {
    told.push(`log-probability ${fixed(token.logprob, 3)} (${percent(Math.exp(token.logprob))})`);
  }
  if (token.importance_ratio !== null) told.push(`importance ratio ${ratio(token.importance_ratio)}`);
  if (rollout.advantage !== null) told.push(`advantage ${delta(rollout.advantage)}`);
  return told;
}

function ratio(value: number): string {
  return value < 100 ? fixed(value, 4) : compact(value);
}

function among(scale: readonly (Level & { from: number })[], value: number | null): Level {
  return (value === null ? undefined : scale.find((level) => value >= level.from)) ?? UNKNOWN;
}
