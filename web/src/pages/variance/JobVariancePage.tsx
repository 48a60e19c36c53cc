import { Link, useSearchParams } from "wouter";
import type { MeasuredSplit, RowSpread } from "../../api/types";
import { Segmented } from "../../components/Segmented";
import { Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { VarianceView } from "../../components/Variance";
import { useJob } from "../../data/queries";
import { useJobVariance } from "../../data/variance";
import { fixed } from "../../lib/format";

const SPLITS = [
  { value: "valid", label: "Validation" },
  { value: "train", label: "Training" },
] as const satisfies readonly { value: MeasuredSplit; label: string }[];

/** What there is to learn from in a job's rows, at one step: `?split=&step=`, else the baseline. */
export function JobVariancePage({ jobId }: { jobId: string }) {
  const job = useJob(jobId);
  const [search, setSearch] = useSearchParams();
  const split: MeasuredSplit = search.get("split") === "train" ? "train" : "valid";
  const step = Math.max(0, Math.trunc(Number(search.get("step") ?? (split === "train" ? 1 : 0)) || 0));
  const variance = useJobVariance(jobId, split, step);
  const name = job.data?.user_provided_suffix ?? jobId;
  return (
    <>
      <Trail parts={[{ label: "Jobs", href: "/" }, { label: name, href: `/jobs/${jobId}` }, { label: "Variance" }]} />
      <title>{`Variance of ${name} · Agent RFT`}</title>
      <h1>What its rows have to teach</h1>
      <section className="panel" aria-labelledby="variance">
        <header>
          <h2 id="variance">Variance</h2>
          <span className="muted small">
            Rows by their mean reward, lowest first: a job learns where the rollouts of a row differ.
          </span>
          <span className="spacer" />
          <Segmented
            label="Which rows"
            options={SPLITS}
            value={split}
            onChange={(value) => setSearch({ split: value, step: value === "train" ? "1" : "0" }, { replace: true })}
          />
          <label className="number-field">
            Step
            <input
              type="number"
              min={0}
              value={step}
              onChange={(event) => setSearch({ split, step: event.target.value }, { replace: true })}
            />
          </label>
        </header>
        {variance.error && <Problem error={variance.error} onRetry={() => void variance.refetch()} />}
        {variance.isPending && <Skeleton height={260} />}
        {variance.data && (
          <VarianceView variance={variance.data} isStale={variance.isPlaceholderData} noun="row" owner={jobId} />
        )}
      </section>
      {variance.data && variance.data.widest.length > 0 && (
        <Rows
          isStale={variance.isPlaceholderData}
          rows={variance.data.widest}
          hrefOf={(row) => `/jobs/${jobId}/groups/${split}/${step}/${row}`}
        />
      )}
    </>
  );
}

interface RowsProps {
  rows: readonly RowSpread[];
  /** Of another step than the one that is chosen. */
  isStale: boolean;
  hrefOf(row: number): string;
}

function Rows({ rows, isStale, hrefOf }: RowsProps) {
  return (
    <section className="panel" inert={isStale} aria-labelledby="spread-rows">
      <header>
        <h2 id="spread-rows">Rows that differ most</h2>
      </header>
      <div className="scroll">
        <table>
          <thead>
            <tr>
              <th>Row</th>
              <th className="number">Rollouts</th>
              <th className="number">Mean</th>
              <th className="number">Best</th>
              <th className="number">Standard deviation</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.row_index} className="clickable">
                <td>
                  <Link href={hrefOf(row.row_index)} className="row-link">
                    row {row.row_index}
                  </Link>
                </td>
                <td className="number">{row.samples}</td>
                <td className="number">{fixed(row.mean, 3)}</td>
                <td className="number">{fixed(row.best, 3)}</td>
                <td className="number">{fixed(row.spread, 3)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
