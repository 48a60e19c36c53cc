const WORDS = { live: "live", connecting: "connecting", interrupted: "reconnecting", off: null } as const;

/** Whether the page is being fed. */
export function LivenessMark({ liveness }: { liveness: keyof typeof WORDS }) {
  const text = WORDS[liveness];
  return text && <span className={`liveness ${liveness}`}>{text}</span>;
}
