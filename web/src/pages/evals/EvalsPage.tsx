import { Link } from "wouter";
import type { Eval } from "../../api/types";
import { More } from "../../components/More";
import { Preformatted } from "../../components/Preformatted";
import { Empty, Problem, Skeleton } from "../../components/State";
import { useEvals } from "../../data/evals";
import { criteriaOf, itemFields } from "../../lib/evals";
import { dateTime } from "../../lib/format";
import "./evals.css";

/** All definitions, newest first. */
export function EvalsPage() {
  const evals = useEvals();
  const all = evals.data?.pages.flatMap((page) => page.data) ?? [];
  return (
    <>
      <title>Evals · Agent RFT</title>
      <h1>Evals</h1>
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

function Definitions({ evals }: { evals: readonly Eval[] }) {
  return (
    <div className="scroll">
      <table>
        <thead>
          <tr>
            <th>Eval</th>
            <th>Criteria</th>
            <th className="spare">Fields of an item</th>
            <th className="spare">Created</th>
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
              <td>
                {criteriaOf(each)
                  .map((one) => one.name)
                  .join(", ")}
              </td>
              <td className="spare mono muted">{itemFields(each).join(", ") || "any"}</td>
              <td className="spare muted nowrap">{dateTime(each.created_at)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
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
        Define one with the official SDK, or bring those of the hosted service: <code>rft evals import DIR</code>
      </span>
      <Preformatted label="Example">{EXAMPLE}</Preformatted>
    </Empty>
  );
}
