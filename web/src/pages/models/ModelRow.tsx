import { useState } from "react";
import { Link } from "wouter";
import { modelsApi } from "../../api/models";
import type { Model } from "../../api/types";
import { Copy } from "../../components/Copy";
import { Preformatted } from "../../components/Preformatted";
import { dateTime, reward } from "../../lib/format";
import { isCheckpoint, sdkCode } from "../../lib/models";

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
          <Link className="button" href={chatPath(model)}>
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
      {isOpen && <Usage model={model} />}
    </li>
  );
}

export function chatPath(model: Model): string {
  return `/models/chat?${new URLSearchParams({ model: model.id })}`;
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

function Usage({ model }: { model: Model }) {
  return (
    <div className="model-usage">
      <Preformatted label="Code for the official SDK">{sdkCode(model, location.origin)}</Preformatted>
      <dl className="facts">
        <div>
          <dt>Files</dt>
          <dd className="mono">{model.path ?? "–"}</dd>
        </div>
        <div>
          <dt>Export</dt>
          <dd className="mono">rft models export {model.id} DIR --merged</dd>
        </div>
      </dl>
    </div>
  );
}
