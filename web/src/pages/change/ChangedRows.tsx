import { useState } from "react";
import { Link } from "wouter";
import type { RowChange } from "../../api/types";
import { compact, fixed } from "../../lib/format";
import { byChange, rewardChange } from "../../lib/policy_change";
import { signed } from "./Scatter";

interface Props {
  rows: readonly RowChange[];
  isStale: boolean;
  traceHref(traceId: string): string;
  /** Where both traces stand side by side. */
  pairHref(row: RowChange): string;
}

const FIRST = 20;

/** Rows that got worse or better, with a trace of each policy. */
export function ChangedRows({ rows, isStale, traceHref, pairHref }: Props) {
  const [isAll, setAll] = useState(false);
  const changed = byChange(rows);
  const shown = isAll ? changed : [...changed.slice(0, FIRST / 2), ...changed.slice(FIRST / 2).slice(-FIRST / 2)];
  return (
    <section className="panel" inert={isStale} aria-labelledby="changed-rows">
      <header>
        <h2 id="changed-rows">Rows that changed</h2>
        <span className="muted small">those that got worse first</span>
      </header>
      <div className="scroll">
        <table>
          <thead>
            <tr>
              <th>Row</th>
              <th className="number">Reward</th>
              <th className="number">Change</th>
              <th className="number">Calls</th>
              <th className="number">Tokens</th>
              <th>Before</th>
              <th>After</th>
              <th>Both</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <tr key={row.row_index}>
                <td>{row.row_index}</td>
                <td className="number nowrap">
                  {fixed(row.before.reward, 3)} → {fixed(row.after.reward, 3)}
                </td>
                <td className={`number ${rewardChange(row) > 0 ? "good" : "bad"}`}>{signed(rewardChange(row), 3)}</td>
                <td className="number nowrap">
                  {compact(row.before.tool_calls)} → {compact(row.after.tool_calls)}
                </td>
                <td className="number nowrap">
                  {compact(row.before.completion_tokens)} → {compact(row.after.completion_tokens)}
                </td>
                <td>
                  <Link href={traceHref(row.before.trace_id)}>trace</Link>
                </td>
                <td>
                  <Link href={traceHref(row.after.trace_id)}>trace</Link>
                </td>
                <td className="nowrap">
                  <Link href={pairHref(row)}>side by side</Link>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {!isAll && changed.length > FIRST && (
        <footer className="more">
          <button type="button" onClick={() => setAll(true)}>
            All {changed.length} rows
          </button>
        </footer>
      )}
    </section>
  );
}
