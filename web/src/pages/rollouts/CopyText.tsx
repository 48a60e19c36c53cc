import { useState } from "react";

interface Props {
  text: string;
  label: string;
  shown: string;
}

/** A button that copies something long, and says that it did. */
export function CopyText({ text, label, shown }: Props) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <button type="button" className="copy-text" aria-label={label} title={label} onClick={() => void copy()}>
      {isCopied ? "copied" : shown}
    </button>
  );
}
