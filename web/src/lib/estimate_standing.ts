/** What an estimate says of the order on the page. */
import { ApiError } from "../api/http";

/** `refused`: the platform would not take the order either. `unknown`: nobody could tell, which keeps no order back. */
export type EstimateStanding = "none" | "asking" | "current" | "refused" | "unknown";

interface Asked {
  /** The order on the page as text; null: it is not whole enough to ask. */
  order: string | null;
  /** The one that was asked about last. */
  asked: string | null;
  /** Whether the answer is that to an order before. */
  isPlaceholder: boolean;
  hasData: boolean;
  error: Error | null;
}

export function standingOf({ order, asked, isPlaceholder, hasData, error }: Asked): EstimateStanding {
  if (order === null) return "none";
  if (order !== asked) return "asking";
  if (error !== null) return isRefusal(error) ? "refused" : "unknown";
  return hasData && !isPlaceholder ? "current" : "asking";
}

/** Whether the platform looked at the order, and would not take it. */
function isRefusal(error: Error): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;
}

/** Whether the order on the page may be sent: not before it is known what it comes to, unless that cannot be known. */
export function maySend(standing: EstimateStanding): boolean {
  return standing === "current" || standing === "unknown";
}
