import type { Outcome, RolloutQuery, Split } from "../api/types";
import { wholeNumber } from "../lib/filters";
import { Segmented } from "./Segmented";

interface Props {
  filter: RolloutQuery;
  onChange(filter: RolloutQuery): void;
}

type Any = "any";

const SPLITS = [
  { value: "any", label: "All" },
  { value: "train", label: "Train" },
  { value: "valid", label: "Validation" },
  { value: "test", label: "Test" },
] as const;

const OUTCOMES = [
  { value: "any", label: "All" },
  { value: "graded", label: "Graded" },
  { value: "failed", label: "Excluded" },
] as const;

/** Which rollouts the table shows. */
export function RolloutFilter({ filter, onChange }: Props) {
  const { split, outcome, step, row_index, ...rest } = filter;
  const numbers = { ...(step !== undefined && { step }), ...(row_index !== undefined && { row_index }) };
  const change = (next: { split?: Split | Any; outcome?: Outcome | Any }) => {
    const newSplit = next.split ?? split;
    const newOutcome = next.outcome ?? outcome;
    onChange({
      ...rest,
      ...numbers,
      ...(newSplit && newSplit !== "any" && { split: newSplit }),
      ...(newOutcome && newOutcome !== "any" && { outcome: newOutcome }),
    });
  };
  const changeNumber = (name: "step" | "row_index", text: string) => {
    const { [name]: _, ...others } = filter;
    const value = wholeNumber(text);
    onChange(value === undefined ? others : { ...others, [name]: value });
  };
  return (
    <div className="filter">
      <Segmented label="Split" options={SPLITS} value={split ?? "any"} onChange={(value) => change({ split: value })} />
      <Segmented
        label="Outcome"
        options={OUTCOMES}
        value={outcome ?? "any"}
        onChange={(value) => change({ outcome: value })}
      />
      <NumberField label="Step" value={step} onChange={(text) => changeNumber("step", text)} />
      <NumberField label="Row" value={row_index} onChange={(text) => changeNumber("row_index", text)} />
    </div>
  );
}

function NumberField({
  label,
  value,
  onChange,
}: {
  label: string;
  value: number | undefined;
  onChange(text: string): void;
}) {
  return (
    <label className="number-field">
      <span className="muted">{label}</span>
      <input
        inputMode="numeric"
        size={4}
        placeholder="any"
        value={value ?? ""}
        onChange={(event) => onChange(event.target.value)}
      />
    </label>
  );
}
