import { useState } from "react";
import { Preformatted } from "../../components/Preformatted";
import { excerpt } from "../../lib/conversation";
import { plural } from "../../lib/format";
import { openAt, parts } from "../../lib/trace_search";

interface Props {
  text: string;
  className: string;
  label?: string;
  /** What is looked for, marked in it. */
  find: string;
}

/** As much as is drawn at once of an opened text: a line of a megabyte would hold the page up. */
const MOST_CHARS = 100_000;

/** Long texts show their beginning first, or where the text is that is looked for. */
export function Folded({ text, className, label = "Text", find }: Props) {
  const [opened, setOpened] = useState(0);
  const { head, hiddenLines } = excerpt(text);
  const from = opened > 0 || hiddenLines === 0 ? 0 : openAt(text, head, find);
  const shown = opened > 0 ? text.slice(0, opened) : from > 0 ? text.slice(from, from + head.length) : head;
  return (
    <div className="folded">
      <Preformatted label={label} className={className}>
        {from > 0 && "… "}
        {parts(shown, find).map((part, i) => (part.isFound ? <mark key={i}>{part.text}</mark> : part.text))}
      </Preformatted>
      {hiddenLines > 0 && (
        <button
          type="button"
          className="quiet"
          aria-expanded={opened > 0}
          onClick={() => setOpened(opened > 0 ? 0 : MOST_CHARS)}
        >
          {opened > 0 ? "Show less" : `Show ${plural(hiddenLines, "more line")}`}
        </button>
      )}
      {opened > 0 && opened < text.length && (
        <button type="button" className="quiet" onClick={() => setOpened(opened + MOST_CHARS)}>
          Show more
        </button>
      )}
    </div>
  );
}
