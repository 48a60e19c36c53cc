import type { Grading } from "../api/types";
import { rowFields } from "../lib/grading";
import { Fact } from "./Fact";
import { Preformatted } from "./Preformatted";

/** The row that the rollout answers, and all that its graders were shown. */
export function RowPanel({ grading }: { grading: Grading }) {
  const { item, sample, missing } = grading;
  const fields = item === null ? [] : rowFields(item);
  return (
    <section className="panel" aria-label="Row">
      <header>
        <h2>Row</h2>
      </header>
      <div className="card">
        {missing !== null && <p className="muted small">{missing}</p>}
        {item !== null && fields.length === 0 && <p className="muted small">It has nothing but its messages.</p>}
        <dl className="facts">
          {fields
            .filter((one) => !one.isLong)
            .map((one) => (
              <Fact key={one.name} label={<span className="mono">{one.name}</span>}>
                {one.value}
              </Fact>
            ))}
        </dl>
        {fields
          .filter((one) => one.isLong)
          .map((one) => (
            <div key={one.name} className="row-field">
              <span className="mono muted small">{one.name}</span>
              <Preformatted label={one.name}>{one.value}</Preformatted>
            </div>
          ))}
        {sample !== null && (
          <details>
            <summary>What graders were shown of the answer</summary>
            <Preformatted label="Sample">{JSON.stringify(sample, null, 2)}</Preformatted>
          </details>
        )}
      </div>
    </section>
  );
}
