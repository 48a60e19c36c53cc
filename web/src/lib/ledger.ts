/** The failure ledger as people read it: every attempt of every call to a customer's endpoint. */
import type { Attempt, EndpointHealth } from "../api/types";
import { count, humanize, percent } from "./format";
import { codeColor, REFUSED } from "./palette";

export interface Call {
  id: string;
  endpoint: string;
  /** What the call was for, where its endpoint's name does not say it. */
  purpose: string;
  attempts: Attempt[];
}

const PURPOSES: Record<string, string> = {
  "rollout.started": "told of the start",
  "rollout.ended": "told of the end",
};

/** Where several hosts are told, the first of a host's tools follows. */
function purposeOf({ call_id, stage }: Attempt): string {
  const told = Object.keys(PURPOSES).find((name) => call_id === name || call_id.startsWith(`${name}.`));
  return (told && PURPOSES[told]) ?? stage;
}

/** Attempts call by call, in the order of their first attempts. */
export function calls(attempts: readonly Attempt[]): Call[] {
  const found = new Map<string, Call>();
  for (const attempt of attempts) {
    const key = `${attempt.stage}/${attempt.endpoint}/${attempt.call_id}`;
    const call = found.get(key) ?? {
      id: attempt.call_id,
      endpoint: attempt.endpoint,
      purpose: purposeOf(attempt),
      attempts: [],
    };
    call.attempts.push(attempt);
    found.set(key, call);
  }
  return [...found.values()];
}

/** The calls that the model made, by call id, and all others: grades and callbacks. */
export function sorted(
  attempts: readonly Attempt[],
  toolCallIds: ReadonlySet<string>,
): { ofModel: ReadonlyMap<string, Attempt[]>; others: Call[] } {
  const all = calls(attempts);
  const ofModel = new Map(all.filter((call) => toolCallIds.has(call.id)).map((call) => [call.id, call.attempts]));
  return { ofModel, others: all.filter((call) => !toolCallIds.has(call.id)) };
}

/** Whether the customer's server refused the call; the model reads why. */
function isRefused(attempt: Pick<Attempt, "status" | "code">): boolean {
  return attempt.code === null && attempt.status !== null && attempt.status >= 400;
}

/** Class of an attempt's colour: a call that was refused is no success, and no failure either. */
export function toneOf(attempt: Pick<Attempt, "status" | "code">): "good" | "refused" | "bad" {
  if (attempt.code !== null) return "bad";
  return isRefused(attempt) ? "refused" : "good";
}

/** What an attempt came to: `200`, `503 server error`, `timeout`. */
export function answer(attempt: Pick<Attempt, "status" | "code">): string {
  const parts = [attempt.status, attempt.code && humanize(attempt.code)];
  return parts.filter((part) => part !== null).join(" ") || "answered";
}

/** Milliseconds as `0.4 ms`, `82 ms`, `1.24 s`, `75 s`. */
export function milliseconds(ms: number): string {
  if (ms < 9.95) return ms < 0.05 ? "0 ms" : `${ms.toFixed(1)} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  return ms < 9_995 ? `${(ms / 1000).toFixed(2)} s` : `${count(ms / 1000)} s`;
}

/** Bytes as `312 B`, `1.2 kB`, `3.4 MB`. */
export function bytes(amount: number): string {
  if (amount < 1000) return `${amount} B`;
  return amount < 999_950 ? `${(amount / 1000).toFixed(1)} kB` : `${(amount / 1e6).toFixed(1)} MB`;
}

export interface ErrorPart {
  code: string;
  label: string;
  /** Of all attempts, in [0, 1]. */
  share: number;
  /** Name of a custom property. */
  color: string;
}

/** How attempts at an endpoint failed or were refused, the most frequent first. */
export function errorParts(health: Pick<EndpointHealth, "errors_by_code" | "client_errors_by_status">): ErrorPart[] {
  const failed = Object.entries(health.errors_by_code).map(([code, times]) => ({
    ...shared(code, humanize(code), times),
    color: codeColor(code),
  }));
  const refused = Object.entries(health.client_errors_by_status).map(([status, times]) => ({
    ...shared(status, `answered ${status}`, times),
    color: REFUSED,
  }));
  return [...failed, ...refused].toSorted((a, b) => b.share - a.share);
}

function shared(code: string, label: string, times: { share: number; count: number }): Omit<ErrorPart, "color"> {
  return { code, label: `${label} ${percent(times.share)} (${count(times.count)})`, share: times.share };
}

/** The newest attempt that gave no result: failed, or refused. */
export function lastTrouble(health: Pick<EndpointHealth, "last_failure" | "last_client_error">): Attempt | null {
  const [failure, refused] = [health.last_failure, health.last_client_error];
  if (failure === null || refused === null) return failure ?? refused;
  return failure.at >= refused.at ? failure : refused;
}

/** The steps the summary covers, in words. */
export function windowWords(endpoints: readonly Pick<EndpointHealth, "from_step" | "to_step">[]): string {
  const [first] = endpoints;
  if (first === undefined) return "";
  return first.from_step === first.to_step ? `step ${first.to_step}` : `steps ${first.from_step} to ${first.to_step}`;
}
