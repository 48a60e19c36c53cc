import type { Model, StoredFile } from "../../api/types";
import { Problem } from "../../components/State";
import { Upload } from "../../components/Upload";
import { useFiles, useUpload } from "../../data/files";
import type { Draft } from "../../lib/draft";
import { plural } from "../../lib/format";
import { baseModels } from "../../lib/models";
import { ChoiceField, TextField } from "../../components/order/fields";
import { RowPreview } from "./RowPreview";
import type { PreviewedRow } from "../../components/order/previewed_row";

interface Props {
  draft: Draft;
  models: readonly Model[];
  row: PreviewedRow;
  onChange(change: Partial<Draft>): void;
}

/** What is trained and on which rows. */
export function DataSection({ draft, models, row, onChange }: Props) {
  const files = useFiles("fine-tune");
  const upload = useUpload("fine-tune", (file) =>
    onChange(draft.training_file ? { validation_file: file.id } : { training_file: file.id }),
  );
  const stored = files.data?.data ?? [];
  const file = (label: string, name: "training_file" | "validation_file" | "test_file", hint: string) => (
    <ChoiceField
      label={label}
      path={name}
      hint={hint}
      value={draft[name]}
      options={[{ value: "", label: "none" }, ...stored.map(fileOption)]}
      onChange={(value) => onChange({ [name]: value })}
    />
  );
  const options = baseModels(models).map(({ id }) => ({ value: id, label: id }));
  return (
    <section className="panel" aria-labelledby="new-data">
      <header>
        <h2 id="new-data">Model and data</h2>
      </header>
      {files.error && <Problem error={files.error} onRetry={() => void files.refetch()} />}
      <div className="form">
        <ChoiceField
          label="Base model"
          path="model"
          value={draft.model}
          options={draft.model ? options : [{ value: "", label: "choose one" }, ...options]}
          onChange={(model) => onChange({ model })}
        />
        <TextField
          label="Name"
          path="suffix"
          hint="A suffix of the model's name, to find the job by."
          value={draft.suffix}
          onChange={(suffix) => onChange({ suffix })}
        />
        {file("Training file", "training_file", "Rows to learn from.")}
        {file("Validation file", "validation_file", "Rows that choose the best checkpoint.")}
        {file("Test file", "test_file", "Rows that choose nothing, for honest final figures.")}
        <div className="wide">
          <Upload
            what={draft.training_file ? "a validation file (.jsonl)" : "a training file (.jsonl)"}
            sending={upload}
          />
        </div>
        {draft.training_file && <RowPreview row={row} />}
      </div>
    </section>
  );
}

function fileOption(file: StoredFile): { value: string; label: string } {
  return { value: file.id, label: `${file.filename} (${contentOf(file)})` };
}

function contentOf({ dataset }: StoredFile): string {
  if (dataset === null) return "no dataset";
  const rows = plural(dataset.rows, "row");
  return dataset.problems ? `${rows}, ${plural(dataset.problems, "bad line")}` : rows;
}
