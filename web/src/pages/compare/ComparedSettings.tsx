import { useMemo, useState } from "react";
import type { Job } from "../../api/types";
import { Segmented } from "../../components/Segmented";
import { Empty } from "../../components/State";
import { humanize } from "../../lib/format";
import { settingRows } from "../../lib/settings_table";

type Shown = "differing" | "all";
const CHOICES: { value: Shown; label: string }[] = [
  { value: "differing", label: "What differs" },
  { value: "all", label: "All" },
];

/** What the jobs were ordered with: by default only where they differ. */
export function ComparedSettings({ jobs, names }: { jobs: readonly Job[]; names: readonly string[] }) {
  const [shown, setShown] = useState<Shown>("differing");
  const rows = useMemo(() => settingRows(jobs), [jobs]);
  const wanted = shown === "all" ? rows : rows.filter((row) => !row.isSame);
  return (
    <section className="panel" aria-labelledby="compared-settings">
      <header>
        <h2 id="compared-settings">Settings</h2>
        <span className="spacer" />
        <Segmented label="Settings shown" options={CHOICES} value={shown} onChange={setShown} />
      </header>
      {wanted.length === 0 ? (
        <Empty title="No difference">These jobs were ordered with the same settings.</Empty>
      ) : (
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls, also by keyboard
        <div className="scroll" tabIndex={0} role="region" aria-label="Table of settings">
          <table className="compared-settings">
            <thead>
              <tr>
                <th>Setting</th>
                {jobs.map((job, i) => (
                  <th key={job.id}>{names[i]}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {wanted.map((row) => (
                <tr key={row.path} className={row.isSame ? "muted" : ""}>
                  <th scope="row">{humanize(row.path.replace("hyperparameters.", ""))}</th>
                  {row.values.map((value, i) => (
                    <td key={jobs[i]?.id}>
                      <div className="setting mono">{value ?? <span className="muted">–</span>}</div>
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
