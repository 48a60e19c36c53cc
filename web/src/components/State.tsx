import type { ReactNode } from "react";

/** Nothing to show, and why. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

/** Something failed; says what and offers another try. */
export function Problem({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  return (
    <div className="banner" role="alert">
      <strong>Not loaded</strong>
      <span>{error.message}</span>
      <span className="spacer" />
      {onRetry && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Holds the place of what is being loaded. */
export function Skeleton({ height }: { height: number }) {
  return <div className="skeleton" style={{ height }} role="status" aria-label="Loading" />;
}
