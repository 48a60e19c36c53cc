/** Notices of the browser about one job, for who asked for them. */
import { useEffect, useRef, useSyncExternalStore } from "react";
import type { Job } from "../api/types";
import type { Alarm } from "../lib/alarms";
import { type Notice, noticesOf } from "../lib/notices";

const WANTED = "rft-notices";

/** Whether they are wanted, and a way to change that; null where the browser has none. */
export function useNotifying() {
  const isPossible = "Notification" in globalThis && isSecureContext;
  const isWanted = useSyncExternalStore(subscribe, () => isPossible && areWanted());
  return isPossible ? { isWanted, change } : null;
}

const listeners = new Set<() => void>();

/** A change in another window counts here, too. */
function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  globalThis.addEventListener("storage", listener);
  return () => {
    listeners.delete(listener);
    globalThis.removeEventListener("storage", listener);
  };
}

function areWanted(): boolean {
  return Notification.permission === "granted" && localStorage.getItem(WANTED) === "yes";
}

async function change(): Promise<void> {
  want(!areWanted() && (await Notification.requestPermission()) === "granted");
}

function want(isWanted: boolean): void {
  localStorage.setItem(WANTED, isWanted ? "yes" : "no");
  for (const listener of listeners) listener();
}

/** Browsers of phones give the permission, and let no page show any. */
function show({ title, body, key }: Notice): void {
  try {
    const shown = new Notification(title, { body, tag: key });
    shown.addEventListener("click", () => globalThis.focus());
  } catch {
    want(false);
  }
}

/** Tells of what happens to the job, where that is wanted. */
export function useNotices(job: Job | undefined, alarms: readonly Alarm[]) {
  const notifying = useNotifying();
  const isWanted = notifying?.isWanted ?? false;
  const seen = useRef<ReadonlySet<string> | null>(null);
  useEffect(() => {
    if (job === undefined) return;
    const now = noticesOf(job, alarms);
    const before = seen.current;
    seen.current = new Set(now.map((notice) => notice.key));
    // What was there when the page was opened is seen on it.
    if (!isWanted || before === null) return;
    for (const notice of now) if (!before.has(notice.key)) show(notice);
  }, [job, alarms, isWanted]);
  return notifying;
}
