import { useEffect, useId, useState } from "react";

interface Props {
  label: string;
  isLabelHidden?: boolean;
  className?: string;
  placeholder?: string;
  size?: number;
  value: string | number;
  onCommit(text: string): void;
}

const PAUSE_MS = 350;

/** A field whose text is taken when the typing pauses, or at once with Enter. */
export function Typed({ label, isLabelHidden, className, placeholder = "any", size, value, onCommit }: Props) {
  const id = useId();
  const [draft, setDraft] = useState<string | null>(null);
  const commit = () => {
    if (draft !== null && draft !== String(value)) onCommit(draft);
    setDraft(null);
  };
  useEffect(() => {
    if (draft === null) return;
    const timer = setTimeout(() => draft !== String(value) && onCommit(draft), PAUSE_MS);
    return () => clearTimeout(timer);
  });
  return (
    <span className={`number-field ${className ?? ""}`}>
      <label htmlFor={id} className={isLabelHidden ? "visually-hidden" : "muted"}>
        {label}
      </label>
      <input
        id={id}
        type={size === undefined ? "search" : "text"}
        size={size}
        placeholder={placeholder}
        value={draft ?? value}
        maxLength={200}
        onChange={(event) => setDraft(event.target.value)}
        onBlur={commit}
        onKeyDown={(event) => event.key === "Enter" && commit()}
      />
    </span>
  );
}
