import { useMemo } from "react";
import { Checkpoints } from "../components/Checkpoints";
import { Curves } from "../components/Curves";
import { EventLog } from "../components/EventLog";
import { JobHeader, JobProblem } from "../components/JobHeader";
import { LivenessMark } from "../components/LivenessMark";
import { Setup } from "../components/Setup";
import { Shell } from "../components/Shell";
import { Problem, Skeleton } from "../components/State";
import { Tiles } from "../components/Tiles";
import { useNow } from "../data/clock";
import { useLive } from "../data/live";
import { useCheckpoints, useEvents, useJob, useLiveEvents, useSteps } from "../data/queries";
import { useSession } from "../data/session";
import { checkpointRows } from "../lib/checkpoint_rows";
import { mergeEvents } from "../lib/fold";
import { readOrder } from "../lib/job_order";
import { isTerminal } from "../lib/summary";
import { RolloutsPanel } from "./RolloutsPanel";

const NO_STEPS: never[] = [];

/** One job: curves, checkpoints, events, rollouts; live while it is not over. */
export function JobPage({ jobId }: { jobId: string }) {
  const { signOut } = useSession();
  const job = useJob(jobId);
  const steps = useSteps(jobId);
  const checkpoints = useCheckpoints(jobId);
  const events = useEvents(jobId);
  const isActive = job.data !== undefined && !isTerminal(job.data);
  const liveness = useLive(jobId, isActive);
  const liveEvents = useLiveEvents(jobId);
  const now = useNow(isActive);

  const known = steps.data ?? NO_STEPS;
  const rows = useMemo(() => checkpointRows(checkpoints.data?.data ?? [], known), [checkpoints.data, known]);
  const log = useMemo(
    () => mergeEvents(liveEvents.data, events.data?.pages.map((page) => page.data) ?? []),
    [liveEvents.data, events.data],
  );
  const tools = useMemo(() => (job.data ? readOrder(job.data.method).tools.map((tool) => tool.name) : []), [job.data]);
  const problem = job.error ?? steps.error;

  return (
    <Shell trail={[{ label: jobId }]} onSignOut={signOut}>
      <title>{`${job.data?.user_provided_suffix ?? jobId} · Agent RFT`}</title>
      {problem && <Problem error={problem} onRetry={() => void Promise.all([job.refetch(), steps.refetch()])} />}
      {(job.isPending || (steps.isPending && !problem)) && <Skeleton height={420} />}
      {job.data && steps.data && (
        <>
          <JobHeader job={job.data} steps={known} now={now} liveness={<LivenessMark liveness={liveness} />} />
          <JobProblem job={job.data} />
          <Tiles steps={known} />
          <Curves steps={known} tools={tools} />
          <div className="columns">
            <div className="stack">
              <Checkpoints rows={rows} />
              <Setup job={job.data} />
            </div>
            <EventLog events={log} hasMore={events.hasNextPage} onMore={() => void events.fetchNextPage()} />
          </div>
          <RolloutsPanel jobId={jobId} />
        </>
      )}
    </Shell>
  );
}
