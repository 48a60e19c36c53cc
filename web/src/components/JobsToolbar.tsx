import { useEffect, useState } from "react";
import { type JobSearch, SORTS, STATUSES } from "../lib/job_search";

interface Props {
  wanted: JobSearch;
  onChange(wanted: JobSearch): void;
}

/** Letters that are typed on ask once, when the hand rests. */
const REST_MS = 250;

/** Search, filter and order of the jobs list. */
export function JobsToolbar({ wanted, onChange }: Props) {
  const [search, setSearch] = useState(wanted.search);
  const [known, setKnown] = useState(wanted.search);
  if (known !== wanted.search) {
    setKnown(wanted.search);
    if (wanted.search !== search.trim()) setSearch(wanted.search);
  }
  useEffect(() => {
    if (search.trim() === wanted.search) return;
    const timer = setTimeout(() => onChange({ ...wanted, search: search.trim() }), REST_MS);
    return () => clearTimeout(timer);
  }, [search, wanted, onChange]);
  return (
    <search className="jobs-toolbar">
      <input
        type="search"
        aria-label="Search jobs"
        placeholder="Name, id, model or metadata"
        maxLength={200}
        value={search}
        onChange={(event) => setSearch(event.target.value)}
      />
      <select
        aria-label="Status"
        value={wanted.status}
        onChange={(event) => onChange({ ...wanted, status: event.target.value })}
      >
        <option value="">Any status</option>
        {STATUSES.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.label}
          </option>
        ))}
      </select>
      <select
        aria-label="Order"
        value={wanted.sort}
        onChange={(event) => onChange({ ...wanted, sort: event.target.value })}
      >
        {SORTS.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.label}
          </option>
        ))}
      </select>
    </search>
  );
}
