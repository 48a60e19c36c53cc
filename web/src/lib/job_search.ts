/** Which jobs the list shows and in which order; kept in the address, so that a view can be sent to a colleague. */
import type { JobQuery, JobSort, JobStatus } from "../api/types";

interface Choice<T> {
  value: T;
  label: string;
}

/** Names of sets of statuses, as the address has them. */
export const STATUSES: readonly (Choice<string> & { statuses: readonly JobStatus[] })[] = [
  { value: "active", label: "Not over", statuses: ["validating_files", "queued", "running", "paused"] },
  { value: "running", label: "Running", statuses: ["running"] },
  { value: "queued", label: "Queued", statuses: ["validating_files", "queued"] },
  { value: "paused", label: "Held or paused", statuses: ["paused"] },
  { value: "succeeded", label: "Succeeded", statuses: ["succeeded"] },
  { value: "failed", label: "Failed", statuses: ["failed"] },
  { value: "cancelled", label: "Cancelled", statuses: ["cancelled"] },
];

export const SORTS: readonly (Choice<string> & { sort: JobSort; order: "asc" | "desc" })[] = [
  { value: "newest", label: "Newest first", sort: "created", order: "desc" },
  { value: "oldest", label: "Oldest first", sort: "created", order: "asc" },
  { value: "reward", label: "Highest reward", sort: "reward", order: "desc" },
  { value: "gain", label: "Largest gain", sort: "gain", order: "desc" },
  { value: "burst", label: "Largest burst", sort: "burst", order: "desc" },
  { value: "duration", label: "Longest", sort: "duration", order: "desc" },
  { value: "shortest", label: "Shortest", sort: "duration", order: "asc" },
];

export interface JobSearch {
  search: string;
  /** One of `STATUSES`; empty: any. */
  status: string;
  /** One of `SORTS`. */
  sort: string;
}

export const EVERY_JOB: JobSearch = { search: "", status: "", sort: "newest" };

/** What an address means; what makes no sense is left out. */
export function parseJobSearch(address: string): JobSearch {
  const parameters = new URLSearchParams(address);
  const known = (choices: readonly Choice<string>[], name: string, otherwise: string) =>
    choices.find((choice) => choice.value === parameters.get(name))?.value ?? otherwise;
  return {
    search: (parameters.get("search") ?? "").slice(0, 200),
    status: known(STATUSES, "status", EVERY_JOB.status),
    sort: known(SORTS, "sort", EVERY_JOB.sort),
  };
}

/** The address of a view: `?search=mail&sort=gain`, or nothing. */
export function formatJobSearch(wanted: JobSearch): string {
  const told = Object.entries(wanted).filter(([name, value]) => value !== EVERY_JOB[name as keyof JobSearch]);
  const text = new URLSearchParams(told).toString();
  return text && `?${text}`;
}

/** The same as the API is asked. */
export function toJobQuery(wanted: JobSearch): JobQuery {
  const { sort, order } = SORTS.find((choice) => choice.value === wanted.sort) ?? { sort: "created", order: "desc" };
  return {
    search: wanted.search.trim(),
    statuses: STATUSES.find((choice) => choice.value === wanted.status)?.statuses ?? [],
    sort,
    order,
  };
}

/** So many jobs are compared at most. */
export const MOST_COMPARED = 8;

/** With the job, or without it where it was chosen; one too many is not taken. */
export function toggled(chosen: readonly string[], id: string): string[] {
  if (chosen.includes(id)) return chosen.filter((one) => one !== id);
  return chosen.length < MOST_COMPARED ? [...chosen, id] : [...chosen];
}

/** The address that compares jobs. */
export function compareAddress(ids: readonly string[]): string {
  return `/compare?${new URLSearchParams(ids.map((id) => ["job", id]))}`;
}
