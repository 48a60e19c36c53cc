import { useMemo } from "react";
import { Link, useLocation, useSearch } from "wouter";
import type { Job, JobCurvesObject } from "../../api/types";
import { Empty, Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { useNow } from "../../data/clock";
import { useComparedCurves, useJobsById } from "../../data/comparing";
import { parseCompared } from "../../lib/compare";
import { compareAddress } from "../../lib/job_search";
import { toolColors } from "../../lib/palette";
import { isTerminal, NO_CURVES } from "../../lib/summary";
import { type Compared, ComparedCurves } from "./ComparedCurves";
import { ComparedFigures } from "./ComparedFigures";
import { ComparedSettings } from "./ComparedSettings";
import "./compare.css";

/** Up to eight jobs side by side: curves, figures, what they were ordered with. */
export function ComparePage() {
  const ids = parseCompared(useSearch());
  const [, navigate] = useLocation();
  const { jobs, isPending, missing, error, refetch } = useJobsById(ids);
  const curves = useComparedCurves(jobs);
  const now = useNow(jobs.some((job) => !isTerminal(job)));
  const problem = error ?? curves.error;
  const compared = useMemo(() => together(jobs, curves.data), [jobs, curves.data]);
  return (
    <>
      <title>Compare jobs · Agent RFT</title>
      <Trail parts={[{ label: "Jobs", href: "/" }, { label: "Compare" }]} />
      <h1>Compare {ids.length > 1 ? `${ids.length} jobs` : "jobs"}</h1>
      {problem && <Problem error={problem} onRetry={() => (refetch(), jobs.length > 0 && void curves.refetch())} />}
      {missing.length > 0 && (
        <div className="banner warn" role="alert">
          <strong>Not found</strong>
          <span>There is no job {missing.join(", ")}.</span>
        </div>
      )}
      {ids.length === 0 && (
        <Empty title="Nothing to compare">
          <span>
            Choose two or more jobs in <Link href="/">the list</Link>.
          </span>
        </Empty>
      )}
      {isPending && <Skeleton height={420} />}
      {!isPending && jobs.length > 0 && (
        <>
          {curves.isPending ? <Skeleton height={360} /> : <ComparedCurves compared={compared} />}
          <ComparedFigures
            compared={compared}
            now={now}
            onRemove={(id) => navigate(compareAddress(ids.filter((one) => one !== id)), { replace: true })}
          />
          <ComparedSettings jobs={jobs} names={compared.map((one) => one.name)} />
        </>
      )}
    </>
  );
}

function together(jobs: readonly Job[], curves: ReadonlyMap<string, JobCurvesObject> | undefined): Compared[] {
  const colors = toolColors(jobs.map((job) => job.id));
  return jobs.map((job) => ({
    job,
    name: nameOf(job),
    color: colors.get(job.id) ?? "--c-quiet",
    curves: curves?.get(job.id) ?? { job: job.id, curves: { object: "fine_tuning.job.curves", ...NO_CURVES } },
  }));
}

/** Short enough for a head of a column. */
function nameOf(job: Job): string {
  return job.user_provided_suffix ?? `…${job.id.slice(-8)}`;
}
