import type { Arrivals } from "../lib/arrivals";
import { count, plural } from "../lib/format";

interface Props {
  arrivals: Arrivals;
  /** The list stands by age: what is new is at its head, else anywhere among its first. */
  isByAge: boolean;
  onShow(): void;
}

/** A line above a list whose place is kept: rows move only when the reader asks for it. */
export function ArrivalsLine({ arrivals, isByAge, onShow }: Props) {
  return (
    <div className="arrivals" role="status">
      {arrivals.count > 0 ? (
        <button type="button" className="quiet" onClick={onShow}>
          {sentence(arrivals)}
          {isByAge ? "" : " among the first"}: show
        </button>
      ) : (
        <span className="muted small">New rollouts are told here as they come in.</span>
      )}
    </div>
  );
}

function sentence({ count: found, isMore }: Arrivals): string {
  return isMore ? `${count(found)} or more new rollouts` : plural(found, "new rollout");
}
