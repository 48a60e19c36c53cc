/** The way into the dashboard: `#sign-in=...` in the addresses that `rft up` and `rft dashboard` print. */

export interface Arrival {
  /** What the fragment carried: signs in once. */
  token: string | null;
  /** The fragment without it, to put back into the address bar; empty or starting with `#`. */
  hash: string;
}

const PARAMETER = "sign-in";

/** Takes the token out of a fragment. */
export function arrive(hash: string): Arrival {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const token = parameters.get(PARAMETER)?.trim() || null;
  if (!parameters.has(PARAMETER)) return { token: null, hash };
  parameters.delete(PARAMETER);
  const rest = parameters.toString();
  return { token, hash: rest && `#${rest}` };
}
