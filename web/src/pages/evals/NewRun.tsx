import { type FormEvent, useState } from "react";
import type { Eval, EvalRun } from "../../api/types";
import { ChoiceField, Inputs, PartProblem, ProblemContext, problemOf, TextField } from "../../components/order/fields";
import { Refusal } from "../../components/Refusal";
import { Segmented } from "../../components/Segmented";
import { Problem } from "../../components/State";
import { Upload } from "../../components/Upload";
import { useEvalActions } from "../../data/evals";
import { forgetOutcome } from "../../data/once";
import { useFiles, useUpload } from "../../data/files";
import { itemFields } from "../../lib/evals";
import { dateTime, fileSize } from "../../lib/format";
import { isWhole, orderOf, type RunForm, SOURCE, startOf } from "../../lib/run_order";
import { CarriedOver } from "./CarriedOver";
import { Sampling } from "./Sampling";
import "../../components/order/order.css";

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

/** Starts a run: items of a file, answered by a model or as they stand. What the API refuses is told at its field. */
export function NewRun({ definition, latest, onClose }: Props) {
  const fields = itemFields(definition);
  // Another run may begin meanwhile: the form stays what it began with.
  const [first] = useState(latest);
  const [form, setForm] = useState<RunForm>(() => startOf(first, fields));
  const { start } = useEvalActions(definition.id);
  const change = (part: Partial<RunForm>) => {
    forgetOutcome(start);
    setForm((old) => ({ ...old, ...part }));
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    start.mutate(orderOf(form), { onSuccess: onClose });
  };
  return (
    <ProblemContext value={problemOf(start.error, true)}>
      <form className="panel order-form" aria-label="New run" onSubmit={submit}>
        <header>
          <h2>New run</h2>
          <span className="spacer" />
          <Inputs isUnderWay={start.isPending}>
            <Segmented
              label="Where answers come from"
              options={SOURCES}
              value={form.isSampled ? "model" : "given"}
              onChange={(value) => change({ isSampled: value === "model" })}
            />
          </Inputs>
        </header>
        <div className="form">
          <Inputs isUnderWay={start.isPending}>
            <Items form={form} change={change} />
            {form.isSampled && <Sampling form={form} change={change} fields={fields} />}
            {form.isSampled && first && <CarriedOver latest={first} form={form} change={change} />}
            <TextField
              label="Name"
              path="name"
              placeholder="the run's id"
              value={form.name}
              onChange={(name) => change({ name })}
            />
          </Inputs>
          <div className="wide">
            <PartProblem path={SOURCE} />
            {start.error && <Refusal error={start.error} />}
          </div>
          <div className="actions wide">
            <button type="submit" className="primary" disabled={!isWhole(form) || start.isPending}>
              Start the run
            </button>
            <button type="button" onClick={onClose}>
              Close
            </button>
          </div>
        </div>
      </form>
    </ProblemContext>
  );
}

interface ItemsProps {
  form: RunForm;
  change(part: Partial<RunForm>): void;
}

function Items({ form, change }: ItemsProps) {
  const files = useFiles("evals");
  const sending = useUpload("evals", (file) => change({ fileId: file.id }));
  const known = files.data?.data.map((file) => ({
    value: file.id,
    label: `${file.filename}, ${fileSize(file.bytes)}, ${dateTime(file.created_at)}`,
  }));
  return (
    <>
      {files.error && (
        <div className="wide">
          <Problem error={files.error} onRetry={() => void files.refetch()} />
        </div>
      )}
      <ChoiceField
        label="Items"
        path={`${SOURCE}.source`}
        value={form.fileId}
        options={[{ value: "", label: "Choose a file of items" }, ...(known ?? [])]}
        onChange={(fileId) => change({ fileId })}
      />
      <div className="wide">
        <Upload what={`lines of {"item": {...}} (.jsonl)`} sending={sending} />
      </div>
    </>
  );
}
