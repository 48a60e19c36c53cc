import { useCopying } from "../../components/copying";

interface Props {
  text: string;
  label: string;
  shown: string;
}

/** A button that copies something long, and says that it did. */
export function CopyText({ text, label, shown }: Props) {
  const [isCopied, copy] = useCopying();
  return (
    <button type="button" className="copy-text" aria-label={label} title={label} onClick={() => copy(text)}>
      {isCopied ? "copied" : shown}
    </button>
  );
}
