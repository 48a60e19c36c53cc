interface Option<T> {
  value: T;
  label: string;
}

interface Props<T> {
  label: string;
  options: readonly Option<T>[];
  value: NoInfer<T>;
  onChange: (value: NoInfer<T>) => void;
}

/** A choice among a few, all visible. */
export function Segmented<T extends string>({ label, options, value, onChange }: Props<T>) {
  return (
    <div className="segmented" role="group" aria-label={label}>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}
        >
          {option.label}
        </button>
      ))}
    </div>
  );
}
