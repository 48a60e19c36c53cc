/** What time it is on the platform. Its times are told as durations, and this machine's clock may be minutes off. */

/** Replies take a while, and tell whole seconds. */
const TOLERATED_S = 5;
/** Three times as long as the platform leaves a line silent. */
export const MOST_SILENT_MS = 45_000;

/** Seconds by which the platform's clock is ahead of this one. */
let ahead = 0;
/** By this machine's clock. */
let heardAt = Date.now();

/** Something came from the platform. */
export function hear(): void {
  heardAt = Date.now();
}

/** Takes the time of a reply that was made just now, from its `Date`. */
export function learnTime(date: string | null): void {
  hear();
  const told = (Date.parse(date ?? "") - Date.now()) / 1000;
  if (Math.abs(told - ahead) > TOLERATED_S) ahead = told;
}

/** Unix seconds, as far as anything was heard: what happened while the platform was gone, or this machine asleep, is not
 * known, and nothing may be told to have stood still for so long. */
export function platformNow(): number {
  return Math.min(Date.now(), heardAt + MOST_SILENT_MS) / 1000 + ahead;
}
