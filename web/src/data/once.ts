/** Orders that are made once, also where they are sent again because nobody heard of the first. */
import { useRef } from "react";

const BYTES = 16;

/** Forgets what became of the last order, so that another may be made. One under way stays: its reply would be lost, and
 * it could be sent a second time. */
export function forgetOutcome({ isPending, reset }: { isPending: boolean; reset(): void }): void {
  if (!isPending) reset();
}

/** The key that an order is sent with: the same one for as long as it is the same order on the same page. */
export function useOrderKey(): (order: object) => string {
  const last = useRef({ order: "", key: "" });
  return (order) => {
    const text = JSON.stringify(order);
    if (last.current.order !== text) last.current = { order: text, key: newKey() };
    return last.current.key;
  };
}

/** Not `randomUUID`, which browsers have over https and on their own machine only. */
function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(BYTES))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
