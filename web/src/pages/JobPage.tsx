import { useMemo } from "react";
import { Checkpoints } from "../components/Checkpoints";
import { Curves } from "../components/Curves";
import { Endpoints } from "../components/Endpoints";
import { EventLog } from "../components/EventLog";
import { JobActions, RefusedAction } from "../components/JobActions";
import { JobHeader, JobProblem } from "../components/JobHeader";
import { LivenessMark } from "../components/LivenessMark";
import { Setup } from "../components/Setup";
import { Shell } from "../components/Shell";
import { StandstillBanner } from "../components/Standstill";
import { Problem, Skeleton } from "../components/State";
import { Tiles } from "../components/Tiles";
import { Usage } from "../components/Usage";
import { useAct, useDownload } from "../data/actions";
import { useNow } from "../data/clock";
import { useLive } from "../data/live";
import { useCheckpoints, useEndpoints, useEvents, useJob, useLiveEvents, useSteps } from "../data/queries";
import { useSession } from "../data/session";
import { checkpointRows } from "../lib/checkpoint_rows";
import { mergeEvents } from "../lib/fold";
import { readOrder } from "../lib/job_order";
import { toolColors } from "../lib/palette";
import { actions } from "../lib/standing";
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
  const endpoints = useEndpoints(jobId, isActive);
  const now = useNow(isActive);
  const act = useAct(jobId);
  const download = useDownload();

  const known = steps.data ?? NO_STEPS;
  const rows = useMemo(() => checkpointRows(checkpoints.data?.data ?? [], known), [checkpoints.data, known]);
  const log = useMemo(
    () => mergeEvents(liveEvents.data, events.data?.pages.map((page) => page.data) ?? []),
    [liveEvents.data, events.data],
  );
  const tools = useMemo(() => (job.data ? readOrder(job.data.method).tools.map((tool) => tool.name) : []), [job.data]);
  const colors = useMemo(() => toolColors(tools), [tools]);
  const problem = job.error ?? steps.error;

  return (
    <Shell trail={[{ label: jobId }]} onSignOut={signOut}>
      <title>{`${job.data?.user_provided_suffix ?? jobId} · Agent RFT`}</title>
      {problem && <Problem error={problem} onRetry={() => void Promise.all([job.refetch(), steps.refetch()])} />}
      {(job.isPending || (steps.isPending && !problem)) && <Skeleton height={420} />}
      {job.data && steps.data && (
        <>
          <JobHeader
            job={job.data}
            now={now}
            liveness={<LivenessMark liveness={liveness} />}
            actions={<JobActions actions={actions(job.data)} isBusy={act.isPending} onAct={act.mutate} />}
          />
          <RefusedAction error={act.error ?? download.error} onClose={() => (act.reset(), download.reset())} />
          <JobProblem job={job.data} />
          <StandstillBanner job={job.data} now={now} />
          <Tiles steps={known} />
          <Curves steps={known} tools={tools} />
          {endpoints.error && <Problem error={endpoints.error} onRetry={() => void endpoints.refetch()} />}
          {endpoints.isPending && <Skeleton height={160} />}
          {endpoints.data && (
            <Endpoints
              endpoints={endpoints.data.data}
              colors={colors}
              now={now}
              hrefOf={(attempt) => `/jobs/${jobId}/rollouts/${attempt.trace_id}`}
            />
          )}
          <div className="columns">
            <div className="stack">
              <Checkpoints rows={rows} />
              <Usage
                job={job.data}
                colors={colors}
                isLoading={download.isPending}
                onDownload={(fileId) => download.mutate({ fileId, name: `${jobId}.csv` })}
              />
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
