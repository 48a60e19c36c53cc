import { useCopying } from "./copying";

interface Props {
  text: string;
  /** What is shown where the whole text has no room. */
  shown?: string;
  label: string;
}

/** A text that is copied with one click, as ids are. */
export function Copy({ text, shown = text, label }: Props) {
  const [isCopied, copy] = useCopying();
  return (
    <button
      type="button"
      className="copy mono"
      onClick={() => copy(text)}
      title={`Copy ${text}`}
      aria-label={`Copy ${label} ${text}`}
    >
      {shown}
      <svg
        className={isCopied ? "copy-mark is-copied" : "copy-mark"}
        width="12"
        height="12"
        viewBox="0 0 12 12"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.4"
        aria-hidden="true"
      >
        {isCopied ? <path d="M2 6.5 5 9.5 10.5 3" /> : <path d="M4.5 4.5h6v6h-6zM7.5 4.5v-3h-6v6h3" />}
      </svg>
    </button>
  );
}
