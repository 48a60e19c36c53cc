import { COLUMNS } from "../../lib/rollout_columns";

interface Props {
  shown: ReadonlySet<string>;
  onChange(shown: ReadonlySet<string>): void;
}

/** Which columns the table has; the rollout itself always stays. */
export function ColumnChoice({ shown, onChange }: Props) {
  const toggle = (id: string) => {
    const next = new Set(shown);
    if (!next.delete(id)) next.add(id);
    onChange(next);
  };
  return (
    <>
      <button type="button" popoverTarget="columns">
        Columns
      </button>
      <div id="columns" popover="auto" className="column-choice" role="group" aria-label="Columns">
        {COLUMNS.filter((column) => column.id !== "id").map((column) => (
          <label key={column.id}>
            <input type="checkbox" checked={shown.has(column.id)} onChange={() => toggle(column.id)} />
            {column.label}
          </label>
        ))}
      </div>
    </>
  );
}
