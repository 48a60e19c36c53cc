import type { ComparedRow, Eval, EvalRun, OutputItem } from "../../api/types";
import { Preformatted } from "../../components/Preformatted";
import { Problem, Skeleton } from "../../components/State";
import { useItemsOfRow } from "../../data/evals";
import { criteriaOf } from "../../lib/evals";
import { answerOf, resultsOf, scoreWords } from "../../lib/output_items";

interface Props {
  definition: Eval;
  row: ComparedRow;
  a: EvalRun;
  b: EvalRun;
}

/** One item as both runs answered it, side by side. */
export function BothAnswers({ definition, row, a, b }: Props) {
  const here = useItemsOfRow(definition.id, a, row.row_index);
  const there = useItemsOfRow(definition.id, b, row.other_row_index);
  const problem = here.error ?? there.error;
  if (problem) return <Problem error={problem} onRetry={() => void Promise.all([here.refetch(), there.refetch()])} />;
  if (!here.data || !there.data) return <Skeleton height={80} />;
  const item = here.data[0] ?? there.data[0];
  const names = criteriaOf(definition).map((each) => each.name);
  return (
    <div className="both">
      {item && (
        <div className="stack both-item">
          <h3>Item</h3>
          <Preformatted label="Item">{JSON.stringify(item.datasource_item, null, 2)}</Preformatted>
        </div>
      )}
      <Samples title="A" items={here.data} criteria={names} />
      <Samples title="B" items={there.data} criteria={names} />
    </div>
  );
}

function Samples({ title, items, criteria }: { title: string; items: readonly OutputItem[]; criteria: string[] }) {
  return (
    <div className="stack">
      <h3>{title}</h3>
      {items.map((item) => (
        <div key={item.id} className="said">
          <span className="muted small">
            {resultsOf(item)
              .map((result, i) => `${criteria[i]} ${result.error ?? scoreWords(result.score)}`)
              .join(", ")}
          </span>
          <Preformatted label={`Answer of ${title}`} className="prose">
            {answerOf(item) || "no answer"}
          </Preformatted>
        </div>
      ))}
    </div>
  );
}
