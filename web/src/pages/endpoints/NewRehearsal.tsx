import { type FormEvent, useState } from "react";
import { Amount } from "../../components/Amount";
import { Refusal } from "../../components/Refusal";
import { Problem } from "../../components/State";
import { useRehearsalActions } from "../../data/endpoints";
import { useFiles } from "../../data/files";
import { useGraders, useTools } from "../../data/registry";
import { dateTime } from "../../lib/format";

/** Orders a rehearsal of registered tools and a registered grader. */
export function NewRehearsal({ onClose }: { onClose(): void }) {
  const files = useFiles("fine-tune");
  const tools = useTools();
  const graders = useGraders();
  const { rehearse } = useRehearsalActions();
  const [fileId, setFileId] = useState("");
  const [graderId, setGraderId] = useState("");
  const [toolIds, setToolIds] = useState<readonly string[]>([]);
  const [batchSize, setBatchSize] = useState("8");
  const [calls, setCalls] = useState("3");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const order = { fileId, graderId, toolIds, batchSize: amountOf(batchSize), callsPerRollout: amountOf(calls) };
    rehearse.mutate(order, { onSuccess: onClose });
  };
  return (
    <form className="form-body" aria-label="New rehearsal" onSubmit={submit}>
      <p className="muted small">
        With registered tools and graders; an order of its own is rehearsed by <code>rft rehearse job.json</code>.
      </p>
      {files.error && <Problem error={files.error} onRetry={() => void files.refetch()} />}
      <label className="field">
        Dataset
        <select required value={fileId} onChange={(event) => setFileId(event.target.value)}>
          <option value="">Choose a file</option>
          {files.data?.data.map((file) => (
            <option key={file.id} value={file.id}>
              {file.filename}, {dateTime(file.created_at)}
            </option>
          ))}
        </select>
      </label>
      <label className="field">
        Grader
        <select required value={graderId} onChange={(event) => setGraderId(event.target.value)}>
          <option value="">Choose a grader</option>
          {graders.data?.map((grader) => (
            <option key={grader.id} value={grader.id}>
              {grader.name} ({grader.type.replaceAll("_", " ")})
            </option>
          ))}
        </select>
      </label>
      <fieldset className="form-row">
        <legend>Tools</legend>
        {tools.data?.length === 0 && <span className="muted">none are registered</span>}
        {tools.data?.map((tool) => (
          <label key={tool.id} className="check">
            <input
              type="checkbox"
              checked={toolIds.includes(tool.id)}
              onChange={(event) =>
                setToolIds(event.target.checked ? [...toolIds, tool.id] : toolIds.filter((id) => id !== tool.id))
              }
            />
            <span className="mono">{tool.name}</span>
          </label>
        ))}
      </fieldset>
      <div className="form-row">
        <Amount label="Rows per step" min={1} value={batchSize} onChange={setBatchSize} />
        <Amount label="Calls per rollout" min={0} value={calls} onChange={setCalls} />
      </div>
      {rehearse.error && <Refusal error={rehearse.error} />}
      <div className="actions">
        <button type="submit" className="primary" disabled={rehearse.isPending || !fileId || !graderId}>
          Play the burst
        </button>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </form>
  );
}

function amountOf(typed: string): number | null {
  return typed.trim() === "" ? null : Number(typed);
}
