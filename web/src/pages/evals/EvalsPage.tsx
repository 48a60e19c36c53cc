import { Link } from "wouter";
import type { LatestRun, ListedEval } from "../../api/types";
import { More } from "../../components/More";
import { Preformatted } from "../../components/Preformatted";
import { Empty, Problem, Skeleton } from "../../components/State";
import { useEvals } from "../../data/evals";
import { criteriaOf, itemFields } from "../../lib/evals";
import { dateTime } from "../../lib/format";
import { latestRunView } from "../../lib/latest_run";
import { runMark } from "../../lib/run_mark";
import "./evals.css";

/** All definitions, newest first. */
export function EvalsPage() {
  const evals = useEvals();
  const all = evals.data?.pages.flatMap((page) => page.data) ?? [];
  return (
    <>
      <title>Evals · Agent RFT</title>
      <div className="title-row">
        <h1>Evals</h1>
        <span className="spacer" />
        <Link href="/evals/new" className="button primary">
          New eval
        </Link>
      </div>
      {evals.error && <Problem error={evals.error} onRetry={() => void evals.refetch()} />}
      {evals.isPending && <Skeleton height={220} />}
      {evals.data && (
        <section className="panel" aria-label="Evals">
          {all.length === 0 ? <NoEvals /> : <Definitions evals={all} />}
          <More query={evals} label="Older evals" />
        </section>
      )}
    </>
  );
}

function Definitions({ evals }: { evals: readonly ListedEval[] }) {
  return (
    <div className="scroll">
      <table>
        <thead>
          <tr>
            <th>Eval</th>
            <th>Latest run</th>
            <th>Passed</th>
            <th className="spare">When</th>
            <th className="spare">Criteria</th>
            <th className="spare">Fields of an item</th>
          </tr>
        </thead>
        <tbody>
          {evals.map((each) => (
            <tr key={each.id} className="clickable">
              <td>
                <Link href={`/evals/${each.id}`} className="row-link strong">
                  {each.name}
                </Link>
              </td>
              <Latest run={each.latest_run} href={each.latest_run && `/evals/${each.id}/runs/${each.latest_run.id}`} />
              <td className="spare criterion-name">
                {criteriaOf(each)
                  .map((one) => one.name)
                  .join(", ")}
              </td>
              <td className="spare mono muted">{itemFields(each).join(", ") || "any"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Latest({ run, href }: { run: LatestRun | null; href: string | null }) {
  if (run === null || href === null)
    return (
      <>
        <td className="muted" colSpan={2}>
          no runs yet
        </td>
        <td className="spare muted">–</td>
      </>
    );
  const mark = runMark(run);
  const { value, notes } = latestRunView(run);
  return (
    <>
      <td className="above-link nowrap">
        <Link href={href} aria-label={`Latest run: ${mark.label}`}>
          <span className={`badge ${mark.tone}`}>{mark.label}</span>
        </Link>
      </td>
      <td>
        <span className="nowrap">{value}</span>{" "}
        {notes.map((note) => (
          <span key={note} className="muted small nowrap">
            {note}{" "}
          </span>
        ))}
      </td>
      <td className="spare muted nowrap">{dateTime(run.created_at)}</td>
    </>
  );
}

const EXAMPLE = `client = OpenAI(base_url="${location.origin}/v1", api_key="...")
client.evals.create(
    name="Questions",
    data_source_config={"type": "custom", "item_schema": {...}, "include_sample_schema": True},
    testing_criteria=[{"type": "string_check", "name": "exact", "operation": "eq",
                       "input": "{{sample.output_text}}", "reference": "{{item.answer}}"}],
)`;

function NoEvals() {
  return (
    <Empty title="No evals yet">
      <span>
        Define one here or with the official SDK, or bring those of the hosted service:{" "}
        <code>rft evals import DIR</code>
      </span>
      <Preformatted label="Example">{EXAMPLE}</Preformatted>
    </Empty>
  );
}
