import { useState } from "react";
import { Link } from "wouter";
import type { Model } from "../../api/types";
import { Empty } from "../../components/State";
import { useBaseModel } from "../../data/models";
import { checkLines } from "../../lib/models";
import { chatPath } from "./ModelRow";

/** What jobs start from; a look at a model's files is taken when it is asked for. */
export function BaseModels({ models }: { models: readonly Model[] }) {
  return (
    <section className="panel" aria-labelledby="base-models">
      <header>
        <h2 id="base-models">Base models</h2>
        <span className="muted small">
          configured by <code>RFT_BASE_MODELS</code>
        </span>
      </header>
      {models.length === 0 && <Empty title="No base models are configured" />}
      <ul className="models">
        {models.map((model) => (
          <BaseModelRow key={model.id} model={model} />
        ))}
      </ul>
    </section>
  );
}

function BaseModelRow({ model }: { model: Model }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <div className="model">
        <div className="model-name">
          <strong className="mono">{model.id}</strong>
          <span className="mono muted small">{model.path}</span>
        </div>
        <div className="actions">
          <Link className="button" href={chatPath(model)}>
            Chat
          </Link>
          <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            Check
          </button>
        </div>
      </div>
      {isOpen && <Check id={model.id} />}
    </li>
  );
}

/** What `rft models check` finds. */
function Check({ id }: { id: string }) {
  const model = useBaseModel(id, true);
  if (model.isPending)
    return <p className="model-check muted">Its files are being looked at. The first time takes seconds.</p>;
  if (model.error) return <p className="model-check bad">{model.error.message}</p>;
  const base = model.data.base_model;
  if (!base) return <p className="model-check muted">Its files are not on the platform's host.</p>;
  return (
    <div className="model-check">
      <p className={base.problem === null ? "good" : "bad"}>
        {base.problem === null ? "A job can start from it." : base.problem}
      </p>
      <dl className="facts">
        {checkLines(base).map((line) => (
          <div key={line.label}>
            <dt>{line.label}</dt>
            <dd>{line.value}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}
