import { type FormEvent, useId, useState } from "react";
import type { Eval, EvalRun } from "../../api/types";
import { Amount } from "../../components/Amount";
import { Refusal } from "../../components/Refusal";
import { Segmented } from "../../components/Segmented";
import { Upload } from "../../components/Upload";
import { useEvalActions } from "../../data/evals";
import { useFiles, useUpload } from "../../data/files";
import { useModels } from "../../data/models";
import { useTools } from "../../data/registry";
import { itemFields } from "../../lib/evals";
import { dateTime, fileSize } from "../../lib/format";
import { orderOf, type RunForm, startOf } from "../../lib/run_order";
import "../../components/form.css";

interface Props {
  definition: Eval;
  /** The last one that a model answered: what it was asked is asked again. */
  latest: EvalRun | null;
  onClose(): void;
}

const SOURCES = [
  { value: "model", label: "A model answers" },
  { value: "given", label: "Judge the file's samples" },
] as const;

/** Starts a run: items of a file, answered by a model or as they stand. */
export function NewRun({ definition, latest, onClose }: Props) {
  const fields = itemFields(definition);
  const [form, setForm] = useState<RunForm>(() => startOf(latest, fields));
  const change = (part: Partial<RunForm>) => setForm((old) => ({ ...old, ...part }));
  const { start } = useEvalActions(definition.id);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    start.mutate(orderOf(form), { onSuccess: onClose });
  };
  const isReady = form.fileId !== "" && (!form.isSampled || (form.model.trim() !== "" && form.prompt.trim() !== ""));
  return (
    <form className="panel new-run" aria-label="New run" onSubmit={submit}>
      <header>
        <h2>New run</h2>
        <span className="spacer" />
        <Segmented
          label="Where answers come from"
          options={SOURCES}
          value={form.isSampled ? "model" : "given"}
          onChange={(value) => change({ isSampled: value === "model" })}
        />
      </header>
      <div className="form-body">
        <Items form={form} change={change} />
        {form.isSampled && <Sampling form={form} change={change} fields={fields} />}
        <label className="field">
          Name
          <input
            value={form.name}
            onChange={(event) => change({ name: event.target.value })}
            placeholder="the run's id"
          />
        </label>
        {start.error && <Refusal error={start.error} />}
        <div className="actions">
          <button type="submit" className="primary" disabled={!isReady || start.isPending}>
            Start the run
          </button>
          <button type="button" onClick={onClose}>
            Close
          </button>
        </div>
      </div>
    </form>
  );
}

interface PartProps {
  form: RunForm;
  change(part: Partial<RunForm>): void;
}

function Items({ form, change }: PartProps) {
  const files = useFiles("evals");
  const sending = useUpload("evals", (file) => change({ fileId: file.id }));
  return (
    <div className="field">
      <label className="field">
        Items
        <select value={form.fileId} onChange={(event) => change({ fileId: event.target.value })} required>
          <option value="">Choose a file of items</option>
          {files.data?.data.map((file) => (
            <option key={file.id} value={file.id}>
              {file.filename}, {fileSize(file.bytes)}, {dateTime(file.created_at)}
            </option>
          ))}
        </select>
      </label>
      <Upload what={`lines of {"item": {...}} (.jsonl)`} sending={sending} />
    </div>
  );
}

function Sampling({ form, change, fields }: PartProps & { fields: readonly string[] }) {
  const models = useModels();
  const tools = useTools();
  const listId = useId();
  return (
    <>
      <label className="field">
        Model
        <input
          className="mono"
          list={listId}
          value={form.model}
          required
          placeholder="a model, a checkpoint, or PROVIDER/MODEL"
          onChange={(event) => change({ model: event.target.value })}
        />
        <datalist id={listId}>
          {models.data?.map((model) => (
            <option key={model.id} value={model.id} aria-label={model.id} />
          ))}
        </datalist>
      </label>
      <label className="field">
        Instructions
        <textarea rows={2} value={form.system} onChange={(event) => change({ system: event.target.value })} />
      </label>
      <label className="field">
        Prompt
        <textarea
          className="mono"
          rows={2}
          required
          value={form.prompt}
          onChange={(event) => change({ prompt: event.target.value })}
        />
        <span className="muted small">
          May name {fields.map((name) => `{{item.${name}}}`).join(", ") || "fields of an item"}.
        </span>
      </label>
      <div className="form-row">
        <Amount label="Samples per item" value={form.samples} min={1} onChange={(samples) => change({ samples })} />
        <Amount
          label="Temperature"
          value={form.temperature}
          min={0}
          step="any"
          onChange={(temperature) => change({ temperature })}
        />
        <Amount label="Tokens at most" value={form.maxTokens} min={1} onChange={(maxTokens) => change({ maxTokens })} />
      </div>
      {tools.data && tools.data.length > 0 && (
        <fieldset className="form-row">
          <legend>Tools that are really called</legend>
          {tools.data.map((tool) => (
            <label key={tool.id} className="check">
              <input
                type="checkbox"
                checked={form.tools.includes(tool.id)}
                onChange={(event) =>
                  change({
                    tools: event.target.checked ? [...form.tools, tool.id] : form.tools.filter((id) => id !== tool.id),
                  })
                }
              />
              <span className="mono">{tool.name}</span>
            </label>
          ))}
        </fieldset>
      )}
    </>
  );
}
