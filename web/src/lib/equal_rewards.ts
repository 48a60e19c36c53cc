/** Whether rewards are the same but for rounding, as training and the API have it. */

/** On large rewards, whose neighbours lie further apart, in proportion to them. */
export function areEqual(rewards: readonly number[]): boolean {
  const tolerance = Math.max(1e-8, 1e-12 * Math.max(...rewards.map(Math.abs)));
  return Math.max(...rewards) - Math.min(...rewards) < tolerance;
}
