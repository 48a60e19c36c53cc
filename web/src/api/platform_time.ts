/** What time it is on the platform. Its times are told as durations, and this machine's clock may be minutes off. */

/** Replies take a while, and tell whole seconds. */
const TOLERATED_S = 5;

/** Seconds by which the platform's clock is ahead of this one. */
let ahead = 0;

/** Takes the time of a reply that was made just now, from its `Date`. */
export function learnTime(date: string | null): void {
  const told = (Date.parse(date ?? "") - Date.now()) / 1000;
  if (Math.abs(told - ahead) > TOLERATED_S) ahead = told;
}

/** Unix seconds. */
export function platformNow(): number {
  return Date.now() / 1000 + ahead;
}
