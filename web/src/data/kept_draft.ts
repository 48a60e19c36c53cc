/** Orders of jobs that were not sent yet, kept in memory while somebody is signed in: who leaves one finds it again. */
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { type Draft, withoutSecrets } from "../lib/draft";

const DRAFTS = ["job-draft"];

/** `from`: the job that it began with; null of one that began empty. */
const keyOf = (from: string | null) => [...DRAFTS, from];

/** Without secrets, which are held no longer than their page is open. */
export function keepDraft(cache: QueryClient, from: string | null, draft: Draft): void {
  // Nothing shows it meanwhile, and it is not asked for again.
  cache.setQueryDefaults(DRAFTS, { gcTime: Number.POSITIVE_INFINITY });
  cache.setQueryData(keyOf(from), withoutSecrets(draft));
}

export function keptDraft(cache: QueryClient, from: string | null): Draft | undefined {
  return cache.getQueryData<Draft>(keyOf(from));
}

export function forgetDraft(cache: QueryClient, from: string | null): void {
  cache.removeQueries({ queryKey: keyOf(from), exact: true });
}

/** A draft that begins as `start`, or as it was left. */
export function useDraft(from: string | null, start: Draft) {
  const cache = useQueryClient();
  const [first] = useState(start);
  const [left] = useState(() => keptDraft(cache, from));
  const [draft, setDraft] = useState(left ?? first);
  useEffect(() => {
    if (draft !== first) keepDraft(cache, from, draft);
  }, [cache, draft, first, from]);
  return {
    draft,
    change: (part: Partial<Draft>) => setDraft((before) => ({ ...before, ...part })),
    /** It goes on with one that was left. */
    isLeft: left !== undefined && draft !== first,
    startOver: () => (forgetDraft(cache, from), setDraft(first)),
    forget: () => forgetDraft(cache, from),
  };
}
