import { useState } from "react";
import { Link } from "wouter";
import type { Model } from "../../api/types";
import { ModelCheck } from "../../components/ModelCheck";
import { Empty } from "../../components/State";
import { useBaseModel } from "../../data/models";
import { chatPath } from "../../lib/models";

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
          <Link className="button" href={chatPath(model.id)}>
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

function Check({ id }: { id: string }) {
  const model = useBaseModel(id, true);
  return <ModelCheck model={model.data} error={model.error} />;
}
