import { useState } from "react";
import { useLocation, useSearch } from "wouter";
import type { Eval } from "../../api/types";
import { Confirmation } from "../../components/Confirmation";
import { Copy } from "../../components/Copy";
import { RefusedAction } from "../../components/RefusedAction";
import { Scroll } from "../../components/Scroll";
import { Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { useEval, useEvalActions, useEvalRuns } from "../../data/evals";
import { newRunAddress } from "../../lib/commands";
import { criteriaOf, itemFields } from "../../lib/evals";
import { fixed } from "../../lib/format";
import { NewRun } from "./NewRun";
import { RunsTable } from "./RunsTable";
import "./evals.css";

/** One definition and its runs. */
export function EvalPage({ evalId }: { evalId: string }) {
  const definition = useEval(evalId);
  return (
    <>
      <Trail parts={[{ label: "Evals", href: "/evals" }, { label: definition.data?.name ?? evalId }]} />
      <title>{`${definition.data?.name ?? evalId} · Agent RFT`}</title>
      {definition.error && <Problem error={definition.error} onRetry={() => void definition.refetch()} />}
      {definition.isPending && <Skeleton height={320} />}
      {definition.data && <Loaded definition={definition.data} />}
    </>
  );
}

function Loaded({ definition }: { definition: Eval }) {
  const runs = useEvalRuns(definition.id);
  const { remove } = useEvalActions(definition.id);
  const [, navigate] = useLocation();
  const [isAsking, setAsking] = useState(false);
  const isStarting = new URLSearchParams(useSearch()).get("run") === "new";
  const setStarting = (is: boolean) =>
    navigate(is ? newRunAddress(definition.id) : `/evals/${definition.id}`, { replace: true });
  const all = runs.data?.pages.flatMap((page) => page.data) ?? [];
  return (
    <>
      <header className="title-row">
        <h1>{definition.name}</h1>
        <Copy text={definition.id} label="id" />
        <span className="spacer" />
        <div className="actions">
          <button type="button" className="primary" aria-expanded={isStarting} onClick={() => setStarting(!isStarting)}>
            New run
          </button>
          <button type="button" onClick={() => setAsking(true)}>
            Delete
          </button>
        </div>
      </header>
      <RefusedAction error={remove.error} onClose={remove.reset} />
      {isStarting && runs.data && (
        <NewRun
          definition={definition}
          latest={all.find((run) => run.model) ?? null}
          onClose={() => setStarting(false)}
        />
      )}
      {runs.error && <Problem error={runs.error} onRetry={() => void runs.refetch()} />}
      {runs.isPending ? <Skeleton height={160} /> : <RunsTable definition={definition} runs={all} query={runs} />}
      <Criteria definition={definition} />
      {isAsking && (
        <Confirmation
          title="Delete this eval?"
          consequence="It goes with all its runs and their items. Runs that are under way end."
          label="Yes, delete"
          otherwise="Keep it"
          onConfirm={() => remove.mutate(undefined, { onSuccess: () => navigate("/evals") })}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}

function Criteria({ definition }: { definition: Eval }) {
  const fields = itemFields(definition);
  return (
    <section className="panel" aria-labelledby="criteria">
      <header>
        <h2 id="criteria">What is measured</h2>
        <span className="muted small">
          An item passes when all criteria do. Fields of an item:{" "}
          <span className="mono">{fields.join(", ") || "any"}</span>
        </span>
      </header>
      <Scroll label="Testing criteria">
        <table>
          <thead>
            <tr>
              <th>Criterion</th>
              <th>Grader</th>
              <th>What it looks at</th>
              <th className="number">Passes from</th>
            </tr>
          </thead>
          <tbody>
            {criteriaOf(definition).map((criterion) => (
              <tr key={criterion.id}>
                <td className="strong criterion-name">{criterion.name}</td>
                <td className="nowrap">{criterion.type}</td>
                <td className="mono criterion-detail">{criterion.detail ?? "–"}</td>
                <td className="number">
                  {criterion.passesFrom === null ? (
                    <span className="muted">default</span>
                  ) : (
                    fixed(criterion.passesFrom, 2)
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
