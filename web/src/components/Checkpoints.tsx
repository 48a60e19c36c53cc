import { type CheckpointRow } from "../lib/checkpoint_rows";
import { compact, delta, middle, reward } from "../lib/format";
import { Copy } from "./Copy";
import { Empty } from "./State";

/** The adapters on disk, best first. */
export function Checkpoints({ rows }: { rows: readonly CheckpointRow[] }) {
  return (
    <section className="panel" aria-labelledby="checkpoints">
      <header>
        <h2 id="checkpoints">Checkpoints</h2>
        <span className="muted small">the three best are kept</span>
      </header>
      {rows.length === 0 ? (
        <Empty title="No checkpoint yet">The first one is saved with the first step.</Empty>
      ) : (
        <div className="scroll">
          <table>
            <thead>
              <tr>
                <th>Step</th>
                <th className="number">Validation</th>
                <th className="number">vs baseline</th>
                <th className="number">Train</th>
                <th className="number">Tool calls</th>
                <th className="number">Tokens</th>
                <th>Model name</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.id}>
                  <td className="nowrap">
                    {row.step} {row.isBest && <span className="badge good">best</span>}
                    {row.step === 0 && <span className="badge">baseline</span>}
                  </td>
                  <td className="number">
                    <strong>{reward(row.valid)}</strong>
                    {row.interval && (
                      <span className="muted small">
                        {" "}
                        [{reward(row.interval[0])}, {reward(row.interval[1])}]
                      </span>
                    )}
                  </td>
                  <td className={`number ${tone(row.gain)}`}>{delta(row.gain)}</td>
                  <td className="number">{reward(row.train)}</td>
                  <td className="number">{compact(row.toolCalls)}</td>
                  <td className="number">{compact(row.tokens)}</td>
                  <td>
                    <Copy text={row.model} shown={middle(row.model, 34)} label="model name" />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function tone(gain: number | null): string {
  if (gain === null || gain === 0) return "muted";
  return gain > 0 ? "good" : "bad";
}
