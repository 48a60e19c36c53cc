import type { HeaderDraft } from "../../lib/draft";

interface Props {
  headers: readonly HeaderDraft[];
  onChange(headers: HeaderDraft[]): void;
}

/** Headers that are sent with every call. Their values are secrets: they are not shown, kept or copied anywhere. */
export function Headers({ headers, onChange }: Props) {
  const change = (at: number, header: Partial<HeaderDraft>) =>
    onChange(headers.map((one, i) => (i === at ? { ...one, ...header } : one)));
  return (
    <div className="headers wide">
      {headers.map((header, i) => (
        <div key={i} className="header-row">
          <input
            aria-label={`Name of header ${i + 1}`}
            placeholder="Authorization"
            autoComplete="off"
            value={header.name}
            onChange={(event) => change(i, { name: event.target.value })}
          />
          <input
            type="password"
            aria-label={`Value of header ${i + 1}`}
            placeholder="value, kept encrypted"
            autoComplete="off"
            value={header.value}
            onChange={(event) => change(i, { value: event.target.value })}
          />
          <button type="button" onClick={() => onChange(headers.filter((_, at) => at !== i))}>
            Remove
          </button>
        </div>
      ))}
      <button type="button" className="quiet" onClick={() => onChange([...headers, { name: "", value: "" }])}>
        Add a header
      </button>
    </div>
  );
}
