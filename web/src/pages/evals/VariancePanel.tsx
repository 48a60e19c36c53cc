import { useState } from "react";
import type { EvalRun } from "../../api/types";
import { Segmented } from "../../components/Segmented";
import { Problem } from "../../components/State";
import { VarianceView } from "../../components/Variance";
import { useVariance } from "../../data/evals";
import type { CriterionView } from "../../lib/evals";

interface Props {
  evalId: string;
  run: EvalRun;
  criteria: readonly CriterionView[];
}

const PASSING = "";

/** What there is to learn from on these items. Of single samples there is nothing to tell. */
export function VariancePanel({ evalId, run, criteria }: Props) {
  const [criterion, setCriterion] = useState(criteria.length === 1 ? (criteria[0]?.id ?? PASSING) : PASSING);
  const variance = useVariance(evalId, run, criterion || undefined);
  if (run.samples_per_row < 2) return null;
  const options = [
    { value: PASSING, label: "passing" },
    ...criteria.map(({ id, name }) => ({ value: id, label: name })),
  ];
  return (
    <section className="panel" aria-labelledby="variance">
      <header>
        <h2 id="variance">Variance</h2>
        <span className="muted small">
          Items by their mean, lowest first: a job learns where samples of an item differ.
        </span>
        <span className="spacer" />
        {criteria.length > 1 && (
          <Segmented label="Of what" options={options} value={criterion} onChange={setCriterion} />
        )}
      </header>
      {variance.error && <Problem error={variance.error} onRetry={() => void variance.refetch()} />}
      {variance.data && <VarianceView variance={variance.data} noun="item" owner={run.id} />}
    </section>
  );
}
