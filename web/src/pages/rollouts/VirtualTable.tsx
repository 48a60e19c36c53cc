import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import type { RolloutQuery, RolloutSummary } from "../../api/types";
import { COLUMNS, type Column, directionOf, resorted } from "../../lib/rollout_columns";
import { RolloutCells } from "./RolloutCells";

interface Props {
  rollouts: readonly RolloutSummary[];
  /** Ids of the columns. */
  shown: ReadonlySet<string>;
  query: RolloutQuery;
  /** These are of the question before. */
  isStale: boolean;
  hasMore: boolean;
  isLoadingMore: boolean;
  onMore(): void;
  onSort(query: RolloutQuery): void;
  hrefOf(rollout: RolloutSummary): string;
}

const ROW_PX = 38;
const AHEAD_ROWS = 40;
const MOVES: Record<string, number> = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 };

/** A table of which only the rows in sight are drawn. Keys move through it and open. */
export function VirtualTable(props: Props) {
  const { rollouts, shown, hasMore, isLoadingMore, onMore, hrefOf } = props;
  const columns = COLUMNS.filter((column) => shown.has(column.id));
  const scroll = useRef<HTMLDivElement>(null);
  // oxlint-disable-next-line react/incompatible-library -- nothing of it is handed to a memoized component
  const rows = useVirtualizer({
    count: rollouts.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  });
  const seen = rows.getVirtualItems();
  const last = seen.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && !isLoadingMore && last + AHEAD_ROWS > rollouts.length) onMore();
  }, [hasMore, isLoadingMore, last, rollouts.length, onMore]);
  const current = useKeys(rollouts, hrefOf, (index) => rows.scrollToIndex(index));
  const above = seen[0]?.start ?? 0;
  const below = rows.getTotalSize() - (seen.at(-1)?.end ?? 0);
  const chars = columns.reduce((sum, column) => sum + column.width, 0);
  return (
    <section className={`panel rollout-list ${props.isStale ? "is-stale" : ""}`} aria-label="Rollouts">
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls, also by keyboard */}
      <div className="scroll" ref={scroll} tabIndex={0} role="region" aria-label="Table of rollouts">
        <table aria-rowcount={hasMore ? -1 : rollouts.length + 1} style={{ minWidth: chars * 6.4 }}>
          <colgroup>
            {columns.map((column) => (
              <col key={column.id} style={{ width: `${(column.width / chars) * 100}%` }} />
            ))}
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              {columns.map((column) => (
                <Head key={column.id} column={column} query={props.query} onSort={props.onSort} />
              ))}
            </tr>
          </thead>
          <tbody>
            <Gap px={above} columns={columns.length} />
            {seen.map(({ index, key }) => {
              const rollout = rollouts[index];
              return (
                rollout && (
                  <tr
                    key={key}
                    aria-rowindex={index + 2}
                    className={`clickable ${index === current ? "is-current" : ""}`}
                    aria-current={index === current ? "true" : undefined}
                  >
                    <RolloutCells rollout={rollout} columns={columns} href={hrefOf(rollout)} />
                  </tr>
                )
              );
            })}
            <Gap px={below} columns={columns.length} />
          </tbody>
        </table>
      </div>
      {isLoadingMore && <p className="loading-more muted small">Loading more</p>}
    </section>
  );
}

/** Holds the place of the rows out of sight. */
function Gap({ px, columns }: { px: number; columns: number }) {
  if (px <= 0) return null;
  return (
    <tr aria-hidden="true" className="gap">
      {/* oxlint-disable-next-line jsx-a11y/control-has-associated-label -- nobody reads it */}
      <td colSpan={columns} style={{ height: px }} />
    </tr>
  );
}

interface HeadProps {
  column: Column;
  query: RolloutQuery;
  onSort(query: RolloutQuery): void;
}

function Head({ column, query, onSort }: HeadProps) {
  const direction = directionOf(query, column);
  return (
    <th className={column.isNumber ? "number" : undefined} aria-sort={direction ?? undefined}>
      {column.sort === undefined ? (
        column.label
      ) : (
        <button type="button" className="sort" onClick={() => onSort(resorted(query, column))}>
          {column.label}
          <span aria-hidden="true">{direction === null ? "" : direction === "ascending" ? " ↑" : " ↓"}</span>
        </button>
      )}
    </th>
  );
}

/** j, k and arrows move, Enter opens, unless somebody types. The row they are at; -1 before the first key. */
function useKeys(
  rollouts: readonly RolloutSummary[],
  hrefOf: (rollout: RolloutSummary) => string,
  onMove: (index: number) => void,
): number {
  const [current, setCurrent] = useState(-1);
  const [, navigate] = useLocation();
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const isElsewhere = target.closest("input, select, button, a, [popover]") !== null;
      if (isElsewhere || event.altKey || event.ctrlKey || event.metaKey) return;
      const move = MOVES[event.key];
      const here = rollouts[current];
      if (move !== undefined) {
        event.preventDefault();
        const next = Math.min(rollouts.length - 1, Math.max(0, current + move));
        setCurrent(next);
        onMove(next);
      } else if (event.key === "Enter" && here !== undefined) {
        navigate(hrefOf(here));
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  });
  return Math.min(current, rollouts.length - 1);
}
