import type { Model } from "../api/types";
import { checkLines } from "../lib/models";

interface Props {
  /** Absent: it is being looked at. */
  model: Model | undefined;
  error: Error | null;
}

/** What `rft models check` finds in a base model's files. */
export function ModelCheck({ model, error }: Props) {
  if (error) return <p className="model-check bad">{error.message}</p>;
  if (model === undefined)
    return <p className="model-check muted">Its files are being looked at. The first time takes seconds.</p>;
  const base = model.base_model;
  if (!base) return <p className="model-check muted">Its files are not on the platform's host.</p>;
  return (
    <div className="model-check">
      <p className={base.problem === null ? "good" : "bad"}>
        {base.problem === null ? "A job can start from it." : `A job cannot start from it: ${base.problem}.`}
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
