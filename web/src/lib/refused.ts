/** Which of several actions was refused, to be said in one place. */

interface Action {
  error: Error | null;
  reset(): void;
}

/** The first refusal. Closing it leaves the other actions as they are: one may show a secret that is told once. */
export function refusedOf(...actions: readonly Action[]): { error: Error | null; onClose(): void } {
  const refused = actions.find((action) => action.error !== null);
  return { error: refused?.error ?? null, onClose: () => refused?.reset() };
}
