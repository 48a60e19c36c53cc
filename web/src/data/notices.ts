/** Notices of the browser about one job, for who asked for them. */
import { useEffect, useRef, useState } from "react";
import type { Job } from "../api/types";
import type { Alarm } from "../lib/alarms";
import { noticesOf } from "../lib/notices";

const WANTED = "rft-notices";

/** Whether they are wanted, and a way to change that; null where the browser has none. */
export function useNotices(job: Job | undefined, alarms: readonly Alarm[]) {
  const isPossible = "Notification" in globalThis && isSecureContext;
  const [isWanted, setWanted] = useState(
    () => isPossible && Notification.permission === "granted" && localStorage.getItem(WANTED) === "yes",
  );
  const seen = useRef<ReadonlySet<string> | null>(null);
  useEffect(() => {
    if (job === undefined) return;
    const now = noticesOf(job, alarms);
    const before = seen.current;
    seen.current = new Set(now.map((notice) => notice.key));
    // What was there when the page was opened is seen on it.
    if (!isWanted || before === null) return;
    for (const notice of now.filter((one) => !before.has(one.key))) {
      const shown = new Notification(notice.title, { body: notice.body, tag: notice.key });
      shown.addEventListener("click", () => globalThis.focus());
    }
  }, [job, alarms, isWanted]);

  const change = async () => {
    const wants = !isWanted && (await Notification.requestPermission()) === "granted";
    localStorage.setItem(WANTED, wants ? "yes" : "no");
    setWanted(wants);
  };
  return isPossible ? { isWanted, change } : null;
}
