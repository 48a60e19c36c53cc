import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  memo,
  type PointerEvent,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import type { Token } from "../../api/types";
import { details, levelOf, nextStriking, type OfRollout, type TokenFigure } from "../../lib/token_figures";
import { type Chunk, chunked, chunkOf, moved, visible } from "../../lib/tokens";

interface Props {
  /** As far as they are loaded. */
  tokens: readonly Token[];
  rollout: OfRollout;
  figure: TokenFigure;
  hasMore: boolean;
  isLoadingMore: boolean;
  onMore(): void;
}

const CHUNK_PX = 180;

/** The text, of which only what is in sight is drawn; pointer and arrow keys tell of single tokens. */
export function TokenText({ tokens, rollout, figure, hasMore, isLoadingMore, onMore }: Props) {
  const chunks = useMemo(() => chunked(tokens), [tokens]);
  const scroll = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState<number | null>(null);
  // oxlint-disable-next-line react/incompatible-library -- nothing of it is handed to a memoized component
  const parts = useVirtualizer({
    count: chunks.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => CHUNK_PX,
    overscan: 3,
  });
  const seen = parts.getVirtualItems();
  const isAtEnd = (seen.at(-1)?.index ?? 0) >= chunks.length - 2;
  useEffect(() => {
    if (isAtEnd && hasMore && !isLoadingMore) onMore();
  }, [isAtEnd, hasMore, isLoadingMore, onMore]);
  // The token that a key chose stays in sight, however what is above it turns out to measure, until the reader scrolls.
  const [kept, setKept] = useState<{ place: number } | null>(null);
  const letGo = () => setKept(null);
  useLayoutEffect(() => {
    let frame = 0;
    const show = () => {
      if (!kept) return;
      const token = scroll.current?.querySelector(`[data-place="${kept.place}"]`);
      token?.scrollIntoView({ block: "nearest" });
      if (token) return;
      parts.scrollToIndex(chunkOf(chunks, kept.place));
      frame = requestAnimationFrame(show); // What is drawn meanwhile may move it out of sight again.
    };
    show();
    return () => cancelAnimationFrame(frame);
  });
  const here = current === null ? null : chunkOf(chunks, current);
  const onKey = (event: KeyboardEvent) => {
    const by = { n: 1, p: -1 } as const;
    const next =
      event.key === "n" || event.key === "p"
        ? nextStriking(figure, tokens, current, by[event.key], rollout)
        : moved(event.key, current, tokens.length);
    if (next === null || event.altKey || event.ctrlKey || event.metaKey) return letGo();
    event.preventDefault();
    setCurrent(next);
    setKept({ place: next });
  };
  const onPoint = (event: PointerEvent) => {
    const place = (event.target as HTMLElement).dataset["place"];
    if (place !== undefined) setCurrent(Number(place));
  };
  const token = current === null ? undefined : tokens[current];
  return (
    <>
      <p className="token-details small" role="status">
        {token === undefined || current === null ? (
          <span className="muted">
            Point at a token to see what is known of it. In the text, ← and → go from token to token, n and p to what
            stands out.
          </span>
        ) : (
          <>
            <span className={`token ${levelOf(figure, token, current, rollout).name} mono`}>{visible(token)}</span>{" "}
            {details(token, current, rollout).join(" · ")}
          </>
        )}
      </p>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- keys and pointer choose a token */}
      <div
        className="token-text mono"
        ref={scroll}
        role="region"
        aria-label="Text of the tokens"
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls, and keys go through it
        tabIndex={0}
        onKeyDown={onKey}
        onPointerOver={onPoint}
        onPointerDown={letGo}
        onWheel={letGo}
        onTouchMove={letGo}
      >
        <div style={{ paddingTop: seen[0]?.start ?? 0, paddingBottom: parts.getTotalSize() - (seen.at(-1)?.end ?? 0) }}>
          {seen.map(({ index, key }) => {
            const chunk = chunks[index];
            return (
              chunk && (
                <div key={key} data-index={index} ref={parts.measureElement}>
                  <ChunkText {...{ chunk, rollout, figure }} current={here === index ? current : null} />
                </div>
              )
            );
          })}
        </div>
        {isLoadingMore && <p className="muted small">Loading more</p>}
      </div>
    </>
  );
}

interface ChunkProps {
  chunk: Chunk;
  rollout: OfRollout;
  figure: TokenFigure;
  /** The token that is told of, where it is one of these. */
  current: number | null;
}

const ChunkText = memo(function ChunkText({ chunk, rollout, figure, current }: ChunkProps) {
  return chunk.tokens.map((token, i) => {
    const place = chunk.first + i;
    const { name } = levelOf(figure, token, place, rollout);
    return (
      <span key={place} data-place={place} className={`token ${name} ${place === current ? "is-current" : ""}`}>
        {visible(token)}
      </span>
    );
  });
});
