import { useState } from "react";
import { Link } from "wouter";
import { modelsApi } from "../../api/models";
import type { Model } from "../../api/types";
import { Copy } from "../../components/Copy";
import { ModelUse } from "../../components/ModelUse";
import { dateTime, reward } from "../../lib/format";
import { chatPath, isCheckpoint } from "../../lib/models";

/** A fine-tuned model or a checkpoint: how good it was, and how it is used. */
export function ModelRow({ model, onDelete }: { model: Model; onDelete(): void }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <div className="model">
        <div className="model-name">
          <span>
            <Copy text={model.id} label="model" />{" "}
            {!isCheckpoint(model) && <span className="badge good">the job's model</span>}
          </span>
          <span className="muted small">
            {model.step_number !== null && model.step_number !== undefined && `step ${model.step_number}, `}
            {dateTime(model.created)}
          </span>
        </div>
        <Validation model={model} />
        <div className="actions">
          <Link className="button" href={chatPath(model.id)}>
            Chat
          </Link>
          <a className="button" href={modelsApi.adapterPath(model.id)} download>
            Adapter
          </a>
          <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            Use it
          </button>
          <button type="button" onClick={onDelete} aria-label={`Delete ${model.id}`}>
            Delete
          </button>
        </div>
      </div>
      {isOpen && (
        <ModelUse modelId={model.id}>
          <div>
            <dt>Files</dt>
            <dd className="mono">{model.path ?? "–"}</dd>
          </div>
        </ModelUse>
      )}
    </li>
  );
}

function Validation({ model }: { model: Model }) {
  const { valid_reward: mean, valid_reward_low: low, valid_reward_high: high } = model;
  if (mean === null || mean === undefined) return <span className="muted small model-figure">not evaluated</span>;
  return (
    <span className="model-figure">
      <strong>{reward(mean)}</strong>{" "}
      <span className="muted small">{low != null && high != null && `95 %: ${reward(low)} to ${reward(high)}`}</span>
      <span className="muted small">validation</span>
    </span>
  );
}
