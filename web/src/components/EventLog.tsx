import { Fragment, type ReactNode } from "react";
import type { JobEvent } from "../api/types";
import { clockTime, dateTime, daysOf } from "../lib/format";
import { Segmented } from "./Segmented";
import { Empty } from "./State";

interface Props {
  /** Newest first. */
  events: readonly JobEvent[];
  /** Else there may be others than these. */
  isLoaded: boolean;
  view: EventView;
  onView(view: EventView): void;
  hasMore: boolean;
  onMore(): void;
  /** What is to be said of events that are not here. */
  children?: ReactNode;
  /** Unix seconds. */
  now: number;
}

export type EventView = "messages" | "all";

const VIEWS = [
  { value: "messages", label: "Messages" },
  { value: "all", label: "All" },
] as const;

/** What happened, newest first. */
export function EventLog({ events, isLoaded, now, view, onView, hasMore, onMore, children }: Props) {
  const shown = view === "all" ? events : events.filter((event) => event.type !== "metrics");
  const days = daysOf(
    shown.map((event) => event.created_at),
    now,
  );
  return (
    <section className="panel" aria-labelledby="events">
      <header>
        <h2 id="events">Events</h2>
        <span className="spacer" />
        <Segmented label="Which events" options={VIEWS} value={view} onChange={onView} />
      </header>
      {children}
      {shown.length === 0 ? (
        isLoaded && <Empty title="Nothing to report" />
      ) : (
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls, also by keyboard
        <ol className="events" tabIndex={0} aria-label="Events, newest first">
          {shown.map((event, i) => (
            <Fragment key={event.id}>
              {days[i] && <li className="day muted small">{days[i]}</li>}
              <li className={event.level}>
                <time dateTime={new Date(event.created_at * 1000).toISOString()} title={dateTime(event.created_at)}>
                  {clockTime(event.created_at)}
                </time>
                <span>
                  {event.level !== "info" && <strong>{event.level === "warn" ? "Warning" : "Error"}: </strong>}
                  {event.message}
                </span>
              </li>
            </Fragment>
          ))}
          {hasMore && (
            <li>
              <button type="button" className="quiet" onClick={onMore}>
                Older events
              </button>
            </li>
          )}
        </ol>
      )}
    </section>
  );
}
