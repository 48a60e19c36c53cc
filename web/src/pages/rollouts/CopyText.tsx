import { useCopying } from "../../components/copying";

interface Props {
  /** Written only when it is copied: a long trace would be written anew with each drawing. */
  textOf(): string;
  label: string;
  shown: string;
}

/** A button that copies something long, and says that it did. */
export function CopyText({ textOf, label, shown }: Props) {
  const [isCopied, copy] = useCopying();
  return (
    <button type="button" className="copy-text" aria-label={label} title={label} onClick={() => copy(textOf())}>
      {isCopied ? "copied" : shown}
    </button>
  );
}
