import { useState } from "react";
import { useLocation } from "wouter";
import type { Eval, EvalRun } from "../../api/types";
import { Confirmation } from "../../components/Confirmation";
import { Copy } from "../../components/Copy";
import { RefusedAction } from "../../components/RefusedAction";
import { Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { useEval, useCancelRun, useEvalActions, useEvalRun } from "../../data/evals";
import { answeredBy, criteriaOf, hasUnjudged, isGoing, runShare } from "../../lib/evals";
import { count, dateTime, duration, percent } from "../../lib/format";
import { refusedOf } from "../../lib/refused";
import { isCancelling, runMark } from "../../lib/run_mark";
import { OutputItems } from "./OutputItems";
import { RunTiles } from "./RunFigures";
import { CriteriaFigures } from "./CriteriaFigures";
import { VariancePanel } from "./VariancePanel";
import "./evals.css";

interface Props {
  evalId: string;
  runId: string;
}

/** One run: its figures, and what became of each item. */
export function EvalRunPage({ evalId, runId }: Props) {
  const definition = useEval(evalId);
  const run = useEvalRun(evalId, runId);
  const problem = definition.error ?? run.error;
  const trail = [
    { label: "Evals", href: "/evals" },
    { label: definition.data?.name ?? evalId, href: `/evals/${evalId}` },
    { label: run.data?.name ?? runId },
  ];
  return (
    <>
      <Trail parts={trail} />
      <title>{`${run.data?.name ?? runId} · Agent RFT`}</title>
      {problem && <Problem error={problem} onRetry={() => void Promise.all([definition.refetch(), run.refetch()])} />}
      {(run.isPending || definition.isPending) && !problem && <Skeleton height={420} />}
      {run.data && definition.data && <Loaded definition={definition.data} run={run.data} />}
    </>
  );
}

function Loaded({ definition, run }: { definition: Eval; run: EvalRun }) {
  const criteria = criteriaOf(definition);
  return (
    <>
      <Header evalId={definition.id} run={run} />
      {run.error && (
        <div className="banner" role="alert">
          <strong>The run failed</strong>
          <span className="lines">{run.error.message}</span>
        </div>
      )}
      <RunTiles run={run} />
      {run.figures && <CriteriaFigures figures={run.figures} criteria={criteria} />}
      <VariancePanel evalId={definition.id} run={run} criteria={criteria} />
      <OutputItems evalId={definition.id} run={run} criteria={criteria} />
    </>
  );
}

function Header({ evalId, run }: { evalId: string; run: EvalRun }) {
  const { retry, removeRun } = useEvalActions(evalId);
  const cancel = useCancelRun();
  const [, navigate] = useLocation();
  const [isAsking, setAsking] = useState(false);
  const mark = runMark(run);
  const done = runShare(run);
  const took = run.started_at && run.finished_at ? run.finished_at - run.started_at : null;
  return (
    <>
      <header className="title-row">
        <h1>{run.name}</h1>
        <span className={`badge ${mark.tone}`}>{mark.label}</span>
        <span className="spacer" />
        <div className="actions">
          {isGoing(run) ? (
            <button
              type="button"
              disabled={cancel.isPending || isCancelling(run)}
              onClick={() => cancel.mutate({ evalId, runId: run.id })}
            >
              Cancel
            </button>
          ) : (
            <>
              {hasUnjudged(run) && (
                <button type="button" disabled={retry.isPending} onClick={() => retry.mutate(run.id)}>
                  {run.result_counts.errored > 0 ? "Try what has no verdict again" : "Go on"}
                </button>
              )}
              <button type="button" onClick={() => setAsking(true)}>
                Delete
              </button>
            </>
          )}
        </div>
      </header>
      <p className="muted run-facts">
        <span>
          Answered by <span className="mono">{answeredBy(run)}</span>
        </span>
        <span>
          {run.rows === null ? "Items not counted yet" : `${count(run.rows)} items`}
          {run.samples_per_row > 1 && ` × ${run.samples_per_row} samples`}
        </span>
        <span>{dateTime(run.created_at)}</span>
        {took !== null && <span>took {duration(took)}</span>}
        <Copy text={run.id} label="id" />
      </p>
      {run.status === "in_progress" && done !== null && (
        <div
          className="progress"
          role="progressbar"
          aria-label="Samples done"
          aria-valuetext={percent(done)}
          aria-valuenow={Math.round(done * 100)}
        >
          <div style={{ width: `${done * 100}%` }} />
        </div>
      )}
      <RefusedAction {...refusedOf(cancel, retry, removeRun)} />
      {isAsking && (
        <Confirmation
          title="Delete this run?"
          consequence="It goes with its items and figures."
          label="Yes, delete"
          otherwise="Keep it"
          onConfirm={() => removeRun.mutate(run.id, { onSuccess: () => navigate(`/evals/${evalId}`) })}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}
