import { useState } from "react";
import { Link } from "wouter";
import type { Eval, EvalRun } from "../../api/types";
import { More } from "../../components/More";
import { Empty } from "../../components/State";
import { answeredBy, passAtK, passedShare, runShare, share } from "../../lib/evals";
import { count, dateTime, duration, fixed, percent } from "../../lib/format";
import { runMark } from "../../lib/run_mark";

interface Props {
  definition: Eval;
  runs: readonly EvalRun[];
  query: Parameters<typeof More>[0]["query"];
}

/** An eval's runs, newest first. Two that are chosen can be compared. */
export function RunsTable({ definition, runs, query }: Props) {
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const choose = (id: string) =>
    setChosen((old) => (old.includes(id) ? old.filter((one) => one !== id) : [...old, id].slice(-2)));
  // The newer of two is A: what it gained over the other one is asked.
  const [a, b] = runs.map((run) => run.id).filter((id) => chosen.includes(id));
  return (
    <section className="panel" aria-labelledby="runs">
      <header>
        <h2 id="runs">Runs</h2>
        <span className="spacer" />
        {a && b ? (
          <Link className="button" href={`/evals/${definition.id}/compare?a=${a}&b=${b}`}>
            Compare the two
          </Link>
        ) : (
          runs.length > 1 && <span className="muted small">Choose two to compare them</span>
        )}
      </header>
      {runs.length === 0 ? (
        <Empty title="No runs yet">
          <span>Start one with “New run”, or with the SDK: client.evals.runs.create</span>
        </Empty>
      ) : (
        <div className="scroll">
          <table className="eval-runs">
            <thead>
              <tr>
                <th>
                  <span className="visually-hidden">Compare</span>
                </th>
                <th>Run</th>
                <th>Status</th>
                <th>Passed</th>
                <th className="spare">Answered by</th>
                <th className="number">pass@k</th>
                <th className="number">Errored</th>
                <th className="number">Latency p50</th>
                <th className="number">Cost</th>
                <th>Created</th>
              </tr>
            </thead>
            <tbody>
              {runs.map((run) => (
                <Row
                  key={run.id}
                  run={run}
                  href={`/evals/${definition.id}/runs/${run.id}`}
                  isChosen={chosen.includes(run.id)}
                  onChoose={() => choose(run.id)}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <More query={query} label="Older runs" />
    </section>
  );
}

interface RowProps {
  run: EvalRun;
  href: string;
  isChosen: boolean;
  onChoose(): void;
}

function Row({ run, href, isChosen, onChoose }: RowProps) {
  const mark = runMark(run);
  const k = passAtK(run);
  const done = runShare(run);
  const { errored } = run.result_counts;
  return (
    <tr className="clickable">
      <td className="above-link">
        <input type="checkbox" checked={isChosen} onChange={onChoose} aria-label={`Compare ${run.name}`} />
      </td>
      <td>
        <Link href={href} className="row-link strong run-name">
          {run.name}
        </Link>
      </td>
      <td>
        <span className={`badge ${mark.tone}`}>{mark.label}</span>{" "}
        {run.status === "in_progress" && done !== null && <span className="muted small">{percent(done)}</span>}
      </td>
      <td className="nowrap">
        {percent(passedShare(run))} <Interval run={run} />
      </td>
      <td className="spare mono run-model">{answeredBy(run)}</td>
      <td className="number nowrap">{k ? `${percent(k.value)} @${k.k}` : "–"}</td>
      <td className={`number ${errored ? "bad" : "muted"}`}>{count(errored)}</td>
      <td className="number nowrap">{duration(run.figures?.latency?.p50_s)}</td>
      <td className="number">{run.figures?.cost == null ? "–" : fixed(run.figures.cost, 4)}</td>
      <td className="muted nowrap">{dateTime(run.created_at)}</td>
    </tr>
  );
}

function Interval({ run }: { run: EvalRun }) {
  const { interval } = share(run.figures?.passed);
  return interval && <span className="muted small">{interval}</span>;
}
