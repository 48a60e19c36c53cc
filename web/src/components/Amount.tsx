import "./form.css";

interface Props {
  label: string;
  value: string;
  min: number;
  step?: string;
  onChange(value: string): void;
}

/** A number of a form; empty: the default. */
export function Amount({ label, value, min, step, onChange }: Props) {
  return (
    <label className="field">
      {label}
      <input
        type="number"
        min={min}
        step={step}
        value={value}
        placeholder="default"
        onChange={(event) => onChange(event.target.value)}
      />
    </label>
  );
}
