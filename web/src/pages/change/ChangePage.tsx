import { useMemo, useState } from "react";
import { useSearchParams } from "wouter";
import type { PolicyChange, RowChange } from "../../api/types";
import { Segmented } from "../../components/Segmented";
import { Empty, Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { useCurves, useJob, usePolicyChange } from "../../data/queries";
import { compact } from "../../lib/format";
import { type Against, AGAINST, leftOut, measuredSteps, rewardWords } from "../../lib/policy_change";
import { ChangedRows } from "./ChangedRows";
import { RepeatedCalls } from "./RepeatedCalls";
import { Scatter } from "./Scatter";
import "./change.css";

/** How one policy of a job differs from another: `?before=&after=`, else the untrained one and the latest measured. */
export function ChangePage({ jobId }: { jobId: string }) {
  const job = useJob(jobId);
  const curves = useCurves(jobId);
  const [search, setSearch] = useSearchParams();
  const steps = useMemo(() => measuredSteps(curves.data?.data ?? []), [curves.data]);
  const before = chosen(search.get("before"), steps[0] ?? 0);
  const after = chosen(search.get("after"), steps.at(-1) ?? 0);
  const told = usePolicyChange(jobId, before, after, steps.length > 1);
  const name = job.data?.user_provided_suffix ?? jobId;
  const choose = (field: "before" | "after", step: string) =>
    setSearch({ before: String(before), after: String(after), [field]: step }, { replace: true });
  const problem = curves.error ?? told.error;
  return (
    <>
      <Trail parts={[{ label: "Jobs", href: "/" }, { label: name, href: `/jobs/${jobId}` }, { label: "Change" }]} />
      <title>{`What changed in ${name} · Agent RFT`}</title>
      <div className="title-row">
        <h1>What the policy does otherwise</h1>
        <span className="spacer" />
        <StepChoice label="From step" steps={steps} value={before} onChoose={(step) => choose("before", step)} />
        <StepChoice label="to step" steps={steps} value={after} onChoose={(step) => choose("after", step)} />
      </div>
      {problem && <Problem error={problem} onRetry={() => void Promise.all([curves.refetch(), told.refetch()])} />}
      {curves.data && steps.length < 2 && (
        <Empty title="Nothing to compare yet">Two policies have to be measured on the validation rows.</Empty>
      )}
      {steps.length > 1 && told.isPending && <Skeleton height={360} />}
      {steps.length > 1 && told.data && <Told told={told.data} isStale={told.isPlaceholderData} jobId={jobId} />}
      {steps.length > 1 && <RepeatedCalls jobId={jobId} before={before} after={after} />}
    </>
  );
}

interface ToldProps {
  told: PolicyChange;
  /** Of other steps than those that are chosen. */
  isStale: boolean;
  jobId: string;
}

function Told({ told, isStale, jobId }: ToldProps) {
  const [against, setAgainst] = useState<Against>("tool_calls");
  const traceHref = (traceId: string) => `/jobs/${jobId}/rollouts/${traceId}`;
  const pairHref = ({ before, after }: RowChange) =>
    `/jobs/${jobId}/pair?${new URLSearchParams({ before: before.trace_id, after: after.trace_id })}`;
  const notCompared = leftOut(told);
  return (
    <>
      <section className="panel" inert={isStale} aria-labelledby="change">
        <header>
          <h2 id="change">Reward against cost</h2>
          <span className="muted small">{rewardWords(told)}</span>
          <span className="spacer" />
          <Segmented label="Held against" options={AGAINST} value={against} onChange={setAgainst} />
        </header>
        {notCompared && <p className="muted small">{notCompared}</p>}
        <div className="change">
          <Scatter rows={told.data} against={against} owner={jobId} hrefOf={pairHref} />
          <Tools told={told} />
        </div>
      </section>
      <ChangedRows rows={told.data} {...{ isStale, traceHref, pairHref }} />
    </>
  );
}

function Tools({ told }: { told: PolicyChange }) {
  if (told.tools.length === 0) return null;
  return (
    <table>
      <thead>
        <tr>
          <th>Calls per rollout</th>
          <th className="number">step {told.before}</th>
          <th className="number">step {told.after}</th>
        </tr>
      </thead>
      <tbody>
        {told.tools.map((tool) => (
          <tr key={tool.name}>
            <td>
              <code>{tool.name}</code>
            </td>
            <td className="number">{compact(tool.before)}</td>
            <td className="number">{compact(tool.after)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface StepChoiceProps {
  label: string;
  steps: readonly number[];
  value: number;
  onChoose(step: string): void;
}

function StepChoice({ label, steps, value, onChoose }: StepChoiceProps) {
  return (
    <label className="number-field">
      {label}
      <select value={value} onChange={(event) => onChoose(event.target.value)}>
        {(steps.includes(value) ? steps : [...steps, value].toSorted((a, b) => a - b)).map((step) => (
          <option key={step} value={step}>
            {step}
          </option>
        ))}
      </select>
    </label>
  );
}

function chosen(given: string | null, otherwise: number): number {
  const step = given === null ? Number.NaN : Number(given);
  return Number.isSafeInteger(step) && step >= 0 ? step : otherwise;
}
