import type { ReactNode } from "react";

interface Props {
  label: string;
  value: ReactNode;
  note?: ReactNode;
}

/** One number that says how things stand, with what it means. Stands in a list `dl.tiles`. */
export function Tile({ label, value, note }: Props) {
  return (
    <div className="tile">
      <dt>{label}</dt>
      <dd>
        <span className="value">{value}</span>
      </dd>
      {note && <dd className="note">{note}</dd>}
    </div>
  );
}
