import { ModelCheck } from "../../components/ModelCheck";
import { Empty, Problem, Skeleton } from "../../components/State";
import { useBaseModels, useModels } from "../../data/models";
import { baseModels } from "../../lib/models";

/** Base models, each with what a look at its files says. */
export function CheckedModels() {
  const models = useModels();
  const bases = baseModels(models.data ?? []);
  const checks = useBaseModels(bases.map((model) => model.id));
  return (
    <section className="panel" aria-labelledby="base-models">
      <header>
        <h2 id="base-models">Base models</h2>
        <span className="muted small">
          What jobs can start from: <code>RFT_BASE_MODELS</code> on the platform's host
        </span>
      </header>
      {models.error && <Problem error={models.error} onRetry={() => void models.refetch()} />}
      {models.isPending && <Skeleton height={80} />}
      {models.data && bases.length === 0 && <Empty title="No base models are configured" />}
      <ul className="models">
        {bases.map((model, i) => {
          const check = checks[i];
          return (
            <li key={model.id}>
              <div className="model">
                <div className="model-name">
                  <strong className="mono">{model.id}</strong>
                  <span className="mono muted small">{model.path}</span>
                </div>
                <button type="button" disabled={!check || check.isFetching} onClick={() => void check?.refetch()}>
                  {check?.isFetching ? "Looking" : "Check again"}
                </button>
              </div>
              <ModelCheck model={check?.data} error={check?.error ?? null} />
            </li>
          );
        })}
      </ul>
    </section>
  );
}
