import { Link } from "wouter";
import type { Judge, Judges as JudgeList, JudgeUse } from "../../api/types";
import { LastTrouble } from "../../components/Endpoints";
import { Scroll } from "../../components/Scroll";
import { Empty, Problem, Skeleton } from "../../components/State";
import { useNow } from "../../data/clock";
import { useJudges } from "../../data/settings";
import { count, percent } from "../../lib/format";
import { hrefOfUse, shownUses, wordsOfUse } from "../../lib/judges";
import { milliseconds, windowWords } from "../../lib/ledger";

/** The server that judges, the models that graders ask of it, and how that went lately. */
export function Judges() {
  const judges = useJudges();
  return (
    <section className="panel" aria-labelledby="judges">
      <header>
        <h2 id="judges">Judges</h2>
        <span className="muted small">
          Models that graders of the types <code>score_model</code>, <code>label_model</code> and <code>ruler</code> ask
        </span>
      </header>
      {judges.error && <Problem error={judges.error} onRetry={() => void judges.refetch()} />}
      {judges.isPending && <Skeleton height={80} />}
      {judges.data && <Server server={judges.data.server} />}
      {judges.data?.server && judges.data.data.length === 0 && (
        <Empty title="No grader asks a judge yet">
          <span>Choose “Score by a model” or “Label by a model” as the grader of a job or an eval.</span>
        </Empty>
      )}
      {judges.data && judges.data.data.length > 0 && <JudgeTable judges={judges.data.data} />}
    </section>
  );
}

function Server({ server }: Pick<JudgeList, "server">) {
  if (server === null)
    return (
      <Empty title="No judge is configured">
        <span>
          Set <code>RFT_JUDGE_BASE_URL</code> and <code>RFT_JUDGE_API_KEY</code> on the platform's host to an
          OpenAI-compatible server. Until then graders that need a judge are refused.
        </span>
      </Empty>
    );
  return (
    <p className="judge-server">
      <span className="mono address">{server.base_url}</span>
      <span className={server.api_key === null ? "muted" : "good"}>
        {server.api_key === null ? "called without a key" : "called with a key"}
      </span>
      <span className="muted">
        {server.max_concurrency} at once, {server.timeout_s} s each
      </span>
    </p>
  );
}

function JudgeTable({ judges }: { judges: readonly Judge[] }) {
  return (
    <Scroll label="Judges">
      <table className="judges">
        <thead>
          <tr>
            <th>Model</th>
            <th>Named by</th>
            <th className="number">Calls lately</th>
            <th className="number">Failed</th>
            <th className="number spare" title="95 % of the calls took no longer">
              p95
            </th>
            <th className="spare">Last of them</th>
          </tr>
        </thead>
        <tbody>
          {judges.map((judge) => (
            <tr key={judge.model}>
              <td className="mono address">{judge.model}</td>
              <td>
                <Uses judge={judge} />
              </td>
              <Latest judge={judge} />
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Uses({ judge }: { judge: Judge }) {
  const { shown, more } = shownUses(judge);
  return (
    <ul className="judge-uses">
      {shown.map((use) => (
        <li key={use.id}>
          <Use use={use} />
        </li>
      ))}
      {more > 0 && <li className="muted small">and {count(more)} more</li>}
    </ul>
  );
}

function Use({ use }: { use: JudgeUse }) {
  const href = hrefOfUse(use);
  const said = wordsOfUse(use);
  return (
    <>
      {href === null ? said.name : <Link href={href}>{said.name}</Link>}{" "}
      <span className="muted small">{said.what}</span>
    </>
  );
}

/** Of its graders in the newest job that asked it. */
function Latest({ judge: { latest } }: { judge: Judge }) {
  const now = useNow(false);
  const worst = latest?.graders.toSorted((one, other) => other.errors - one.errors)[0];
  if (latest === null || worst === undefined)
    return (
      <td colSpan={4} className="muted">
        no job has asked it yet
      </td>
    );
  const attempts = latest.graders.reduce((sum, grader) => sum + grader.attempts, 0);
  const errors = latest.graders.reduce((sum, grader) => sum + grader.errors, 0);
  return (
    <>
      <td className="number">
        <Link href={`/jobs/${latest.job_id}#endpoints`} title={`${windowWords(latest.graders)} of ${latest.job_id}`}>
          {count(attempts)}
        </Link>
      </td>
      <td className={`number ${errors > 0 ? "bad" : "muted"}`}>{percent(errors / attempts)}</td>
      <td className="number spare nowrap">{milliseconds(worst.latency_p95_ms)}</td>
      <td className="spare nowrap">
        <LastTrouble
          endpoint={worst}
          now={now}
          hrefOf={(attempt) => `/jobs/${latest.job_id}/rollouts/${attempt.trace_id}`}
        />
      </td>
    </>
  );
}
