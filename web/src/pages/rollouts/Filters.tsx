import type { RolloutQuery } from "../../api/types";
import { Segmented } from "../../components/Segmented";
import { changed, formatFilter, hiddenFilters, unsorted } from "../../lib/filters";
import { type FilterProps, MoreFilters } from "./MoreFilters";
import { Typed } from "./Typed";

const SPLITS = [
  { value: "", label: "All" },
  { value: "train", label: "Train" },
  { value: "valid", label: "Validation" },
  { value: "test", label: "Test" },
] as const;
const OUTCOMES = [
  { value: "", label: "All" },
  { value: "graded", label: "Graded" },
  { value: "failed", label: "Excluded" },
] as const;

/** Which rollouts are shown: the usual questions at once, the others behind a button, all in force named. */
export function Filters({ query, tools, onChange }: FilterProps) {
  const hidden = hiddenFilters(query);
  const set = (name: keyof RolloutQuery, text: string) => onChange(changed(query, name, text));
  return (
    <search className="rollout-filters">
      <Typed
        label="Words in prompt or answer"
        isLabelHidden
        className="words"
        placeholder="Words in prompt or answer, rev* for a beginning"
        value={query.q ?? ""}
        onCommit={(text) => set("q", text)}
      />
      <Segmented label="Split" options={SPLITS} value={query.split ?? ""} onChange={(value) => set("split", value)} />
      <Segmented
        label="Outcome"
        options={OUTCOMES}
        value={query.outcome ?? ""}
        onChange={(value) => set("outcome", value)}
      />
      <Typed label="Step" size={5} value={query.step ?? ""} onCommit={(text) => set("step", text)} />
      <Typed label="Row" size={5} value={query.row_index ?? ""} onCommit={(text) => set("row_index", text)} />
      <button type="button" popoverTarget="more-filters">
        More filters
      </button>
      <MoreFilters query={query} tools={tools} onChange={onChange} />
      {hidden.map(([name, text]) => (
        <button
          key={name}
          type="button"
          className="chip-filter"
          aria-label={`Take away: ${text}`}
          onClick={() => set(name, "")}
        >
          {text} <span aria-hidden="true">×</span>
        </button>
      ))}
      {formatFilter(unsorted(query)) !== "" && (
        <button type="button" className="quiet" onClick={() => onChange({})}>
          Clear
        </button>
      )}
    </search>
  );
}
