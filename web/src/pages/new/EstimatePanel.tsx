import type { EndpointEstimate, Estimate } from "../../api/types";
import { Fact } from "../../components/Fact";
import { type EstimateStanding, maySend } from "../../lib/estimate_standing";
import { count, fixed, plural } from "../../lib/format";
import type { OrderProblem } from "../../components/order/fields";

interface Props {
  estimate: Estimate | null;
  standing: EstimateStanding;
  /** What is missing before anybody can be asked. */
  unfinished: readonly string[];
  problem: OrderProblem | null;
  isBusy: boolean;
  onCreate(): void;
  /** Ask once more what could not be told. */
  onAgain(): void;
}

/** What the order means, and the button that places it. */
export function EstimatePanel({ estimate, standing, unfinished, problem, isBusy, onCreate, onAgain }: Props) {
  const isReady = unfinished.length === 0 && maySend(standing);
  return (
    <section className="panel estimate" aria-labelledby="new-estimate">
      <header>
        <h2 id="new-estimate">What it means</h2>
      </header>
      <div className="estimate-body">
        {estimate === null ? (
          <p className="muted">Steps, rollouts and what your endpoints have to bear are told here.</p>
        ) : (
          <Told
            estimate={estimate}
            isOld={unfinished.length > 0 || standing !== "current"}
            isAsking={standing === "asking"}
          />
        )}
        {unfinished.length > 0 ? (
          <ul className="muted">
            {unfinished.map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
        ) : (
          problem && (
            <p className={problem.wasSent ? "bad" : "refused"} role={problem.wasSent ? "alert" : "status"}>
              {problem.message}
            </p>
          )
        )}
        {problem && !problem.wasSent && problem.param === null && (
          <button type="button" onClick={onAgain}>
            Try again
          </button>
        )}
        <button type="button" className="primary" disabled={isBusy || !isReady} onClick={onCreate}>
          {isBusy ? "The endpoints are asked" : "Create the job"}
        </button>
      </div>
    </section>
  );
}

interface ToldProps {
  estimate: Estimate;
  /** It is that of an order before. */
  isOld: boolean;
  isAsking: boolean;
}

function Told({ estimate, isOld, isAsking }: ToldProps) {
  const { hyperparameters: used, rollouts } = estimate;
  return (
    <div className={isOld ? "told is-old" : "told"} aria-busy={isAsking}>
      <dl className="figures">
        <Fact label="Steps">{count(used.steps)}</Fact>
        <Fact label="Rollouts">{count(rollouts.total)}</Fact>
        <Fact label="Burst">{count(used.burst)}</Fact>
      </dl>
      <p className="muted small">
        Each step takes {plural(used.batch_size, "row")} of {count(estimate.train_rows)}, {used.group_size} rollouts of
        each; {plural(used.n_epochs, "epoch")}.
      </p>
      <dl className="facts">
        <Fact label="Training">{count(rollouts.training)}</Fact>
        {rollouts.validation > 0 && (
          <Fact label={`Validation, ${plural(estimate.evaluations, "evaluation")}`}>{count(rollouts.validation)}</Fact>
        )}
        {rollouts.final > 0 && <Fact label="Final figures, at most">{count(rollouts.final)}</Fact>}
        {rollouts.baselines > 0 && <Fact label="Prompted baselines">{count(rollouts.baselines)}</Fact>}
      </dl>
      {estimate.endpoints.length > 0 && <h3>Your endpoints</h3>}
      <ul className="endpoint-estimates">
        {estimate.endpoints.map((endpoint) => (
          <Endpoint key={`${endpoint.stage} ${endpoint.name}`} endpoint={endpoint} />
        ))}
      </ul>
      {estimate.warnings.map((warning) => (
        <p key={warning.code} className="refused small">
          {warning.message}
        </p>
      ))}
    </div>
  );
}

function Endpoint({ endpoint }: { endpoint: EndpointEstimate }) {
  const { stage, name, burst, calls, calls_per_rollout, measured_in } = endpoint;
  return (
    <li>
      <strong>{name}</strong> <span className="muted">{stage}</span>
      <div>
        {plural(burst, "rollout")} at once, about {plural(calls, "call")}
      </div>
      {stage === "tool" && (
        <div className="muted small">
          {fixed(calls_per_rollout, 1)} per rollout,{" "}
          {measured_in === null ? (
            "assumed: no job with it has run"
          ) : (
            <>
              as in{" "}
              <a href={`/jobs/${measured_in}`} target="_blank" rel="noopener">
                an earlier job<span className="visually-hidden"> (in a new tab)</span>
              </a>
            </>
          )}
        </div>
      )}
    </li>
  );
}
