import { useEffect, useMemo, useState } from "react";
import { Problem } from "../../components/State";
import { useFiles, useFirstLines } from "../../data/files";
import { type EvalDraft, itemsOf, schemaOf } from "../../lib/eval_draft";
import { plural } from "../../lib/format";
import { ChoiceField, TextField } from "../../components/order/fields";

interface Props {
  draft: EvalDraft;
  onChange(change: Partial<EvalDraft>): void;
  /** Told the fields that a file's items have; the same function each time. */
  onSchema(itemSchema: string): void;
}

const LOOKED_AT = 50;

/** What it is called, and what each item holds: typed, or read from a file. */
export function ItemsSection({ draft, onChange, onSchema }: Props) {
  const [fileId, setFileId] = useState("");
  const files = [useFiles("evals"), useFiles("fine-tune")];
  const lines = useFirstLines(fileId || null, LOOKED_AT);
  const items = useMemo(() => itemsOf(lines.data ?? []), [lines.data]);
  useEffect(() => {
    if (items.length > 0) onSchema(JSON.stringify(schemaOf(items), null, 2));
  }, [items, onSchema]);
  const options = files
    .flatMap((each) => each.data?.data ?? [])
    .map((file) => ({ value: file.id, label: file.filename }));
  const error = files.find((each) => each.error)?.error ?? lines.error;
  return (
    <section className="panel" aria-labelledby="new-eval-items">
      <header>
        <h2 id="new-eval-items">Items</h2>
      </header>
      {error && <Problem error={error} />}
      <div className="form">
        <TextField
          label="Name"
          path="name"
          hint="The eval's id where nothing is said."
          value={draft.name}
          onChange={(name) => onChange({ name })}
        />
        <ChoiceField
          label="Fields from a dataset"
          path=""
          hint={
            lines.data
              ? `Read from the first ${plural(items.length, "item")}.`
              : "Its first rows tell what an item holds."
          }
          value={fileId}
          options={[{ value: "", label: "none" }, ...options]}
          onChange={setFileId}
        />
        <TextField
          label="Fields of an item"
          path="data_source_config"
          hint="A JSON Schema; templates may name what it lists: {{item.answer}}."
          wide
          isCode
          rows={8}
          value={draft.itemSchema}
          onChange={(itemSchema) => onChange({ itemSchema })}
        />
      </div>
    </section>
  );
}
