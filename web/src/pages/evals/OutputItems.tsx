import { useEffect, useState } from "react";
import type { EvalRun, ItemStatus, OutputItem } from "../../api/types";
import { More } from "../../components/More";
import { Segmented } from "../../components/Segmented";
import { Empty, Problem, Skeleton } from "../../components/State";
import { useOutputItems } from "../../data/evals";
import { type CriterionView, isGoing } from "../../lib/evals";
import { type Filter, newItems } from "../../lib/item_arrivals";
import { answerOf, itemInALine, resultsOf, scoreWords } from "../../lib/output_items";
import { count, plural } from "../../lib/format";
import { ItemDetail } from "./ItemDetail";

interface Props {
  evalId: string;
  run: EvalRun;
  criteria: readonly CriterionView[];
}

/** What became of each sample of each item, in their order. */
export function OutputItems({ evalId, run, criteria }: Props) {
  const [filter, setFilter] = useState<Filter>("all");
  const items = useOutputItems(evalId, run, filter === "all" ? {} : { status: filter });
  const all = items.data?.pages.flatMap((page) => page.data) ?? [];
  const { total, passed, failed, errored } = run.result_counts;
  const options = [
    { value: "all", label: `All ${count(total)}` },
    { value: "pass", label: `Passed ${count(passed)}` },
    { value: "fail", label: `Failed ${count(failed)}` },
    { value: "error", label: `Errored ${count(errored)}` },
  ] as const satisfies readonly { value: Filter; label: string }[];
  const arrived = useArrived(items, run, filter);
  return (
    <section className="panel" aria-labelledby="items">
      <header>
        <h2 id="items">Items</h2>
        <span className="spacer" />
        <Segmented label="Which items" options={options} value={filter} onChange={setFilter} />
      </header>
      {isGoing(run) && (
        <div className="arrivals" role="status">
          {arrived > 0 && all.length > 0 ? (
            <button type="button" className="quiet" disabled={items.isFetching} onClick={() => void items.refetch()}>
              {plural(arrived, "new item")}: show
            </button>
          ) : (
            <span className="muted small">
              {items.hasNextPage
                ? "New items follow at the foot of the list."
                : "New items are told here as they come in."}
            </span>
          )}
        </div>
      )}
      {items.error && <Problem error={items.error} onRetry={() => void items.refetch()} />}
      {items.isPending && <Skeleton height={120} />}
      {items.data && all.length === 0 && <Empty title={filter === "all" ? "No items yet" : "No such items"} />}
      <ol className="output-items">
        {all.map((item) => (
          <Item key={item.id} item={item} criteria={criteria} hasSamples={run.samples_per_row > 1} />
        ))}
      </ol>
      <More query={items} label="More items" />
    </section>
  );
}

/** How many came in since the list was loaded; an empty one takes them at once. */
function useArrived(items: ReturnType<typeof useOutputItems>, run: EvalRun, filter: Filter): number {
  const { data, isPlaceholderData, hasNextPage, refetch } = items;
  const shown = data?.pages.reduce((sum, page) => sum + page.data.length, 0) ?? 0;
  // What lies behind the last of a list that goes on are its next ones.
  const isWhole = data !== undefined && !isPlaceholderData && !hasNextPage;
  const arrived = isWhole ? newItems(run.result_counts, filter, shown) : 0;
  useEffect(() => {
    if (shown === 0 && arrived > 0) void refetch({ cancelRefetch: false });
  }, [arrived, refetch, shown]);
  return arrived;
}

const MARKS: Record<ItemStatus, { label: string; tone: string }> = {
  pass: { label: "passed", tone: "good" },
  fail: { label: "failed", tone: "bad" },
  error: { label: "errored", tone: "warn" },
};

interface ItemProps {
  item: OutputItem;
  criteria: readonly CriterionView[];
  hasSamples: boolean;
}

function Item({ item, criteria, hasSamples }: ItemProps) {
  const [isOpen, setOpen] = useState(false);
  const mark = MARKS[item.status];
  const scores = resultsOf(item).map((result, i) => `${criteria[i]?.name ?? result.id} ${scoreWords(result.score)}`);
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span className="item-place muted">
            {item.datasource_item_id}
            {hasSamples && ` #${item.sample_index + 1}`}
          </span>
          <span className={`badge ${mark.tone}`}>{mark.label}</span>
          <span className="item-line">{itemInALine(item.datasource_item)}</span>
          <span className="item-line muted">{answerOf(item)}</span>
          <span className="item-scores">{scores.join("  ")}</span>
        </summary>
        {isOpen && <ItemDetail item={item} criteria={criteria} />}
      </details>
    </li>
  );
}
