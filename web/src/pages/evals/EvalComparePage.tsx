import { Link, useSearchParams } from "wouter";
import type { Eval, EvalRun, RewardDifference } from "../../api/types";
import { Scroll } from "../../components/Scroll";
import { Empty, Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { useComparison, useEval, useEvalRun } from "../../data/evals";
import { answeredBy, criteriaOf, differenceWords, passedShare, scoreWords, share, verdictWords } from "../../lib/evals";
import { count, percent, plural } from "../../lib/format";
import { ComparedRows } from "./ComparedRows";
import "./evals.css";

/** Two runs, item by item; `?a=&b=`. */
export function EvalComparePage({ evalId }: { evalId: string }) {
  const [search] = useSearchParams();
  const [a, b] = [search.get("a") ?? "", search.get("b") ?? ""];
  const definition = useEval(evalId);
  const [runA, runB] = [useEvalRun(evalId, a), useEvalRun(evalId, b)];
  const failed = [definition, runA, runB].filter((query) => query.error);
  const [problem] = failed.flatMap((query) => query.error ?? []);
  const trail = [
    { label: "Evals", href: "/evals" },
    { label: definition.data?.name ?? evalId, href: `/evals/${evalId}` },
    { label: "Compare" },
  ];
  const isThere = definition.data && runA.data && runB.data;
  return (
    <>
      <Trail parts={trail} />
      <title>Compare runs · Agent RFT</title>
      <h1>Two runs, item by item</h1>
      {problem && <Problem error={problem} onRetry={() => failed.forEach((query) => void query.refetch())} />}
      {!isThere && !problem && <Skeleton height={320} />}
      {isThere && <Compared definition={definition.data} a={runA.data} b={runB.data} />}
    </>
  );
}

interface ComparedProps {
  definition: Eval;
  a: EvalRun;
  b: EvalRun;
}

function Compared({ definition, a, b }: ComparedProps) {
  const comparison = useComparison(definition.id, a, b);
  return (
    <>
      <div className="compared-runs">
        <RunCard letter="A" evalId={definition.id} run={a} />
        <RunCard letter="B" evalId={definition.id} run={b} />
      </div>
      {comparison.error && <Problem error={comparison.error} onRetry={() => void comparison.refetch()} />}
      {comparison.isPending && <Skeleton height={320} />}
      {comparison.data && (
        <>
          <Differences definition={definition} comparison={comparison.data} />
          <ComparedRows definition={definition} a={a} b={b} passed={comparison.data.passed} />
        </>
      )}
    </>
  );
}

function RunCard({ letter, evalId, run }: { letter: string; evalId: string; run: EvalRun }) {
  const { interval } = share(run.figures?.passed);
  return (
    <section className="panel compared-run" aria-label={`Run ${letter}`}>
      <span className="muted">{letter}</span>
      <Link href={`/evals/${evalId}/runs/${run.id}`} className="strong run-name">
        {run.name}
      </Link>
      <span className="mono run-model">{answeredBy(run)}</span>
      <span className="spacer" />
      <span>
        {percent(passedShare(run))} passed <span className="muted small">{interval}</span>
      </span>
    </section>
  );
}

interface DifferencesProps {
  definition: Eval;
  comparison: NonNullable<ReturnType<typeof useComparison>["data"]>;
}

function Differences({ definition, comparison }: DifferencesProps) {
  const names = new Map(criteriaOf(definition).map((each) => [each.id, each.name]));
  const left = [
    comparison.only_here.length && `${plural(comparison.only_here.length, "item")} only in A`,
    comparison.only_there.length && `${plural(comparison.only_there.length, "item")} only in B`,
    comparison.without_verdict.length &&
      `${plural(comparison.without_verdict.length, "item")} without a verdict in one`,
  ].filter(Boolean);
  return (
    <section className="panel" aria-labelledby="differences">
      <header>
        <h2 id="differences">A less B</h2>
        <span className="muted small">
          {plural(comparison.rows, "item")} compared{left.length > 0 && `; left out: ${left.join(", ")}`}
        </span>
      </header>
      {comparison.passed === null ? (
        <Empty title="Nothing to compare">
          <span>No item has a verdict in both runs.</span>
        </Empty>
      ) : (
        <Scroll label="Differences">
          <table>
            <thead>
              <tr>
                <th>Of what</th>
                <th>Difference</th>
                <th className="number">Better</th>
                <th className="number">Worse</th>
                <th className="number">Same</th>
              </tr>
            </thead>
            <tbody>
              <DifferenceRow
                name="Items passed"
                told={differenceWords(comparison.passed, true)}
                difference={comparison.passed}
              />
              {comparison.criteria.map((each) => (
                <DifferenceRow
                  key={each.testing_criteria}
                  name={`${names.get(each.testing_criteria) ?? each.testing_criteria}, score`}
                  told={scoreWords(each)}
                  difference={each.score}
                />
              ))}
            </tbody>
          </table>
          <p className="verdict">{verdictWords(comparison.passed)}</p>
        </Scroll>
      )}
    </section>
  );
}

interface DifferenceProps {
  name: string;
  told: { text: string; tone: string };
  difference: RewardDifference | null;
}

function DifferenceRow({ name, told, difference }: DifferenceProps) {
  return (
    <tr>
      <td className="criterion-name">{name}</td>
      <td className={`nowrap ${told.tone}`}>{told.text}</td>
      <td className="number">{count(difference?.better)}</td>
      <td className="number">{count(difference?.worse)}</td>
      <td className="number">{count(difference?.same)}</td>
    </tr>
  );
}
