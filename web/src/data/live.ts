/** Follows a job's stream and folds what comes into the query cache. */
import { type InfiniteData, type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { ApiError, type Page, type Positioned } from "../api/http";
import { readStream, StreamBroken, type StreamHandlers, type StreamMessage } from "../api/stream";
import type { Curves, Job, JobEvent } from "../api/types";
import { fold, goingOn, isBehind, reconnectDelay, type Span } from "../lib/fold";
import { CONDITION } from "./condition";
import { keys } from "./queries";
import { useSession } from "./session";

type EventPage = Page<JobEvent> & Positioned;
export type Liveness = "connecting" | "live" | "interrupted" | "off";

/** Of a page that nobody looks at, for its notices. */
const HIDDEN_MS = 15_000;

/**
 * Connected while the job `isActive`, from `position` on, once that is known; reconnects where it stopped, or when the
 * position is another. Hidden pages ask now and then: over HTTP/1.1, all pages of a browser share six connections to
 * the platform.
 */
export function useLive(jobId: string, isActive: boolean, position: string | undefined): Liveness {
  const isWanted = isActive && position !== undefined;
  const cache = useQueryClient();
  const { refuse } = useSession();
  const [liveness, setLiveness] = useState<Liveness>("connecting");
  /** What the streams of this page have told. */
  const told = useRef<Span | null>(null);

  const isVisible = useSyncExternalStore(onVisibility, () => document.visibilityState === "visible");

  useEffect(() => {
    if (!isWanted || isVisible) return;
    const timer = setInterval(() => {
      for (const queryKey of [keys.job(jobId), keys.curves(jobId)])
        void cache.invalidateQueries({ queryKey, exact: true });
    }, HIDDEN_MS);
    return () => {
      clearInterval(timer);
      // Steps that were asked for meanwhile are none that the stream tells as new.
      void cache.invalidateQueries({ queryKey: keys.allRolloutHeads(jobId) });
    };
  }, [cache, isWanted, isVisible, jobId]);

  useEffect(() => {
    // What came while nobody looked, and no stream is going to tell: replies go on without a gap from what they have.
    if (!isVisible || !isBehind(told.current, position, isActive ? undefined : 0)) return;
    told.current = null;
    cache.setQueryData(keys.liveEvents(jobId), []);
  }, [cache, isActive, isVisible, jobId, position]);

  useEffect(() => {
    if (!isWanted || !isVisible) return;
    const { span, start } = goingOn(told.current, position);
    told.current = span;
    const take = foldedInto(cache, jobId);
    const stop = new AbortController();
    const handlers: Handlers = {
      onOpen: () => setLiveness("live"),
      onMessages: (messages, lastEventId) => {
        span.to = Math.max(span.to, Number(lastEventId ?? 0));
        take(messages);
      },
      onStopped: () => setLiveness("interrupted"),
      // It may be more than this stream that is gone.
      onBroken: () => void cache.invalidateQueries({ queryKey: CONDITION }),
      onRefused: refuse,
    };
    void follow({ jobId, position: start, signal: stop.signal }, handlers);
    return () => {
      stop.abort();
      setLiveness("connecting");
    };
  }, [cache, isWanted, isVisible, jobId, position, refuse]);

  return isWanted ? liveness : "off";
}

function onVisibility(listener: () => void): () => void {
  document.addEventListener("visibilitychange", listener);
  return () => document.removeEventListener("visibilitychange", listener);
}

interface Target {
  jobId: string;
  position: string | undefined;
  signal: AbortSignal;
}

interface Handlers extends StreamHandlers {
  /** Nothing comes before it is connected again. */
  onStopped(): void;
  /** It did not end by itself. */
  onBroken(): void;
  onRefused(): void;
}

async function follow(target: Target, handlers: Handlers): Promise<void> {
  let lastEventId = target.position;
  let failures = 0;
  const onMessages: StreamHandlers["onMessages"] = (...told) => {
    failures = 0;
    handlers.onMessages(...told);
  };
  while (!target.signal.aborted) {
    try {
      lastEventId = await readStream({ ...target, lastEventId }, { onOpen: handlers.onOpen, onMessages });
    } catch (error) {
      if (target.signal.aborted) return;
      if (error instanceof StreamBroken) lastEventId = error.lastEventId;
      else if (error instanceof ApiError && error.status === 401) return handlers.onRefused();
      else if (!(error instanceof ApiError)) throw error;
      handlers.onBroken();
    }
    if (!target.signal.aborted) handlers.onStopped();
    failures += 1;
    await pause(reconnectDelay(failures), target.signal);
  }
}

/** Takes what comes. A reply that was made before some of it does not take that back. */
function foldedInto(cache: QueryClient, jobId: string): (messages: readonly StreamMessage[]) => void {
  /** What came since the curves were asked for anew, for each time that they are not there yet. */
  const waiting = new Set<StreamMessage[]>();
  const take = (messages: readonly StreamMessage[]) => {
    for (const since of waiting) since.push(...messages);
    if (foldIntoCache(cache, jobId, messages)) void askAnew();
  };
  const askAnew = async () => {
    const since: StreamMessage[] = [];
    waiting.add(since);
    await cache.invalidateQueries({ queryKey: keys.curves(jobId) });
    waiting.delete(since);
    take(since);
  };
  return take;
}

/** Whether the curves that are there no longer hold. */
function foldIntoCache(cache: QueryClient, jobId: string, messages: readonly StreamMessage[]): boolean {
  const known = {
    job: cache.getQueryData<Job>(keys.job(jobId)),
    curves: cache.getQueryData<Curves & Positioned>(keys.curves(jobId)),
    events: cache.getQueryData<JobEvent[]>(keys.liveEvents(jobId)) ?? [],
  };
  const now = fold(known, messages);
  if (now.job) cache.setQueryData(keys.job(jobId), now.job);
  if (now.curves) cache.setQueryData(keys.curves(jobId), now.curves);
  cache.setQueryData(keys.liveEvents(jobId), now.events);
  if (now.areEventsCut) continueBehind(cache, jobId, now.events.slice(-1));
  if (now.hasNewSteps) {
    void cache.invalidateQueries({ queryKey: keys.allDiagnostics(jobId) });
    void cache.invalidateQueries({ queryKey: keys.endpoints(jobId) });
    void cache.invalidateQueries({ queryKey: keys.checkpoints(jobId) });
    void cache.invalidateQueries({ queryKey: keys.allRolloutHeads(jobId) });
  }
  return now.areCurvesStale;
}

/** What was loaded of older events joins those of the stream no more; the next page that is asked for does. */
function continueBehind(cache: QueryClient, jobId: string, last: JobEvent[]): void {
  cache.setQueriesData<InfiniteData<EventPage>>({ queryKey: keys.allEvents(jobId) }, (known) => {
    const first = known?.pages[0];
    return first && { pages: [{ ...first, data: last, has_more: true }], pageParams: [undefined] };
  });
}

function pause(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
