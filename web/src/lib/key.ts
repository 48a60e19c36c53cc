/** The API key's way into the dashboard: `#key=...` in the address that `rft up` prints. */

export const STORAGE_KEY = "rft.api_key";

export interface Arrival {
  /** The key the fragment carried. */
  key: string | null;
  /** The fragment without it, to put back into the address bar; empty or starting with `#`. */
  hash: string;
}

/** Takes the key out of a fragment. */
export function arrive(hash: string): Arrival {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const key = parameters.get("key")?.trim() || null;
  if (!parameters.has("key")) return { key: null, hash };
  parameters.delete("key");
  const rest = parameters.toString();
  return { key, hash: rest && `#${rest}` };
}
