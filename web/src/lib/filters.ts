/** The rollouts table's filter, kept in the address so that a view can be sent to a colleague. */
import type { Outcome, RolloutQuery, Split } from "../api/types";

const SPLITS: readonly string[] = ["train", "valid", "test"];
const OUTCOMES: readonly string[] = ["graded", "failed"];

/** The filter an address means; what makes no sense is left out. */
export function parseFilter(search: string): RolloutQuery {
  const parameters = new URLSearchParams(search);
  const filter: RolloutQuery = {};
  const split = parameters.get("split");
  const outcome = parameters.get("outcome");
  if (split !== null && SPLITS.includes(split)) filter.split = split as Split;
  if (outcome !== null && OUTCOMES.includes(outcome)) filter.outcome = outcome as Outcome;
  const step = wholeNumber(parameters.get("step"));
  const row = wholeNumber(parameters.get("row"));
  if (step !== undefined) filter.step = step;
  if (row !== undefined) filter.row_index = row;
  return filter;
}

/** The address of a filter: `?split=valid&step=4`, or nothing. */
export function formatFilter(filter: RolloutQuery): string {
  const parameters = new URLSearchParams();
  if (filter.split) parameters.set("split", filter.split);
  if (filter.step !== undefined) parameters.set("step", String(filter.step));
  if (filter.row_index !== undefined) parameters.set("row", String(filter.row_index));
  if (filter.outcome) parameters.set("outcome", filter.outcome);
  const text = parameters.toString();
  return text && `?${text}`;
}

/** A whole number from 0 as somebody typed it. */
export function wholeNumber(text: string | null): number | undefined {
  return text !== null && /^\d{1,9}$/.test(text.trim()) ? Number(text) : undefined;
}
