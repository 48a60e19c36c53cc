import { Fragment, useState } from "react";
import { Link } from "wouter";
import { modelsApi } from "../api/models";
import { type CheckpointRow } from "../lib/checkpoint_rows";
import { compact, delta, middle, reward } from "../lib/format";
import { chatPath } from "../lib/models";
import { Copy } from "./Copy";
import { ModelUse } from "./ModelUse";
import { Empty } from "./State";

/** The adapters on disk, best first. `isOver`: none will come. */
export function Checkpoints({ rows, isOver }: { rows: readonly CheckpointRow[]; isOver: boolean }) {
  const [opened, setOpened] = useState<string | null>(null);
  return (
    <section className="panel" aria-labelledby="checkpoints">
      <header>
        <h2 id="checkpoints">Checkpoints</h2>
        <span className="muted small">the best and the newest are kept</span>
      </header>
      {rows.length === 0 ? (
        <Empty title={isOver ? "No checkpoint" : "No checkpoint yet"}>
          {isOver ? "None was saved, or none was kept." : "The first one is saved with the first step."}
        </Empty>
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
                <th>
                  <span className="visually-hidden">What can be done with it</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <Fragment key={row.id}>
                  <tr>
                    <td className="nowrap">
                      {row.step} {row.isBest && <span className="badge good">best</span>}
                      {row.step === 0 && <span className="badge">baseline</span>}
                    </td>
                    <td className="number">
                      <strong>{reward(row.valid)}</strong>
                      {row.interval && (
                        <div className="muted small nowrap">
                          [{reward(row.interval[0])}, {reward(row.interval[1])}]
                        </div>
                      )}
                    </td>
                    <td className={`number ${tone(row.gain)}`}>{delta(row.gain)}</td>
                    <td className="number">{reward(row.train)}</td>
                    <td className="number">{compact(row.toolCalls)}</td>
                    <td className="number">{compact(row.tokens)}</td>
                    <td>
                      <Copy text={row.model} shown={middle(row.model, 22)} label="model name" />
                    </td>
                    <td className="number">
                      <button
                        type="button"
                        className="quiet nowrap"
                        aria-expanded={opened === row.id}
                        onClick={() => setOpened(opened === row.id ? null : row.id)}
                      >
                        Use it
                      </button>
                    </td>
                  </tr>
                  {opened === row.id && <Use modelId={row.model} />}
                </Fragment>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** Below a checkpoint: a chat with it, its files, and how programs ask for it. */
function Use({ modelId }: { modelId: string }) {
  return (
    <tr>
      <td colSpan={8} className="checkpoint-use">
        <div className="actions">
          <Link className="button" href={chatPath(modelId)}>
            Chat
          </Link>
          <a className="button" href={modelsApi.adapterPath(modelId)} download>
            Adapter
          </a>
        </div>
        <ModelUse modelId={modelId} />
      </td>
    </tr>
  );
}

function tone(gain: number | null): string {
  if (gain === null || gain === 0) return "muted";
  return gain > 0 ? "good" : "bad";
}
