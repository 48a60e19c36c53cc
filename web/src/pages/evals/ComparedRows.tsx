import { useState } from "react";
import type { Change, ComparedRow, Eval, EvalRun, RewardDifference } from "../../api/types";
import { More } from "../../components/More";
import { Segmented } from "../../components/Segmented";
import { Empty, Problem, Skeleton } from "../../components/State";
import { useComparedRows } from "../../data/evals";
import { criteriaOf, isGoing } from "../../lib/evals";
import { itemInALine } from "../../lib/output_items";
import { count, percent, reward } from "../../lib/format";
import { BothAnswers } from "./BothAnswers";

type Filter = Change | "all";

interface Props {
  definition: Eval;
  a: EvalRun;
  b: EvalRun;
  passed: RewardDifference | null;
}

/** The items of both, the largest change first. */
export function ComparedRows({ definition, a, b, passed }: Props) {
  const [filter, setFilter] = useState<Filter>("all");
  const rows = useComparedRows(definition.id, a, b, filter === "all" ? undefined : filter);
  const all = rows.data?.pages.flatMap((page) => page.data) ?? [];
  const counts = {
    all: passed?.rows ?? 0,
    better: passed?.better ?? 0,
    worse: passed?.worse ?? 0,
    same: passed?.same ?? 0,
  };
  const isKnown = rows.data !== undefined && !rows.isPlaceholderData;
  const isBehind = (isGoing(a) || isGoing(b)) && isKnown && rows.data.pages[0]?.total !== counts[filter];
  const options = [
    { value: "all", label: `All ${count(counts.all)}` },
    { value: "better", label: `Better ${count(counts.better)}` },
    { value: "worse", label: `Worse ${count(counts.worse)}` },
    { value: "same", label: `Same ${count(counts.same)}` },
  ] as const satisfies readonly { value: Filter; label: string }[];
  return (
    <section className="panel" aria-labelledby="rows">
      <header>
        <h2 id="rows">Items, the largest change first</h2>
        <span className="spacer" />
        <Segmented label="Which items" options={options} value={filter} onChange={setFilter} />
      </header>
      {isBehind && (
        <div className="arrivals" role="status">
          <button type="button" className="quiet" disabled={rows.isFetching} onClick={() => void rows.refetch()}>
            Other items compare now: show
          </button>
        </div>
      )}
      {rows.error && <Problem error={rows.error} onRetry={() => void rows.refetch()} />}
      {rows.isPending && <Skeleton height={120} />}
      {rows.data && all.length === 0 && <Empty title="No such items" />}
      <ol className="output-items">
        {all.map((row) => (
          <Row key={row.row_index} definition={definition} row={row} a={a} b={b} />
        ))}
      </ol>
      <More query={rows} label="More items" />
    </section>
  );
}

const TONES: Record<Change, string> = { better: "good", worse: "bad", same: "" };

function Row({ definition, row, a, b }: { definition: Eval; row: ComparedRow; a: EvalRun; b: EvalRun }) {
  const [isOpen, setOpen] = useState(false);
  const names = criteriaOf(definition).map((each) => each.name);
  const scores = row.scores.map((score, i) => `${names[i]} ${reward(score)} / ${reward(row.other_scores[i])}`);
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span className="item-place muted">{row.row_index}</span>
          <span className={`badge ${TONES[row.change]}`}>{row.change}</span>
          <span className="nowrap">
            passed {percent(row.passed)} <span className="muted">/ {percent(row.other_passed)}</span>
          </span>
          <span className="item-line">{itemInALine(row.datasource_item)}</span>
          <span className="item-scores muted">{scores.join("   ")}</span>
        </summary>
        {isOpen && <BothAnswers definition={definition} row={row} a={a} b={b} />}
      </details>
    </li>
  );
}
