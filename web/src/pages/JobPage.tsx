import { useCallback, useEffect, useMemo, useState } from "react";
import { useLocation, useSearch } from "wouter";
import { Alarms } from "../components/Alarms";
import { Checkpoints } from "../components/Checkpoints";
import { Curves } from "../components/Curves";
import { Endpoints, Refusals } from "../components/Endpoints";
import { EventLog, type EventView } from "../components/EventLog";
import { JobActions } from "../components/JobActions";
import { RefusedAction } from "../components/RefusedAction";
import { JobHeader, JobProblem } from "../components/JobHeader";
import { LivenessMark } from "../components/LivenessMark";
import { NotifyButton } from "../components/NotifyButton";
import { Setup } from "../components/Setup";
import { HoldBanner } from "../components/HoldBanner";
import { Problem, Skeleton } from "../components/State";
import { Tiles } from "../components/Tiles";
import { Usage } from "../components/Usage";
import { Trail } from "../components/Trail";
import { useAct, useDeleteJob, useDownload } from "../data/actions";
import { useNow } from "../data/clock";
import { useComparedCurves } from "../data/comparing";
import { useEvents, useEventsOf, useLiveEvents } from "../data/events";
import { useNotices } from "../data/notices";
import { useLive } from "../data/live";
import { useCheckpoints, useCurves, useDetail, useEndpoints, useJob, useReload } from "../data/queries";
import { type Alarm, alarmsOf } from "../lib/alarms";
import { parseAxis, withAxis } from "../lib/axes";
import { checkpointRows } from "../lib/checkpoint_rows";
import { mergeEvents, streamPosition } from "../lib/fold";
import { readOrder } from "../lib/job_order";
import { MARKED_CODES, markersOf } from "../lib/markers";
import { toolColors } from "../lib/palette";
import { isSame, type Zoom } from "../lib/plot";
import { actions } from "../lib/standing";
import { isTerminal, NO_CURVES, refined } from "../lib/summary";
import { DiagnosticsPanel } from "./DiagnosticsPanel";
import { RolloutsPanel, useListedRollouts } from "./RolloutsPanel";

/** Alarms that a banner of this page says with more beside them. */
const SAID_ABOVE: readonly Alarm["key"][] = ["held", "paused", "failed"];

/** One job: curves, checkpoints, events, rollouts; live while it is not over. */
export function JobPage({ jobId }: { jobId: string }) {
  const job = useJob(jobId);
  const curves = useCurves(jobId);
  const checkpoints = useCheckpoints(jobId);
  const [view, setView] = useState<EventView>("messages");
  const events = useEvents(jobId, view === "messages" ? "message" : undefined);
  const isActive = job.data !== undefined && !isTerminal(job.data);
  const isLoading = curves.isPending || events.isPending;
  const position = isLoading ? undefined : (streamPosition(curves.data, events.data?.pages[0]) ?? "0");
  const liveness = useLive(jobId, isActive, position);
  const liveEvents = useLiveEvents(jobId);
  const endpoints = useEndpoints(jobId, isActive);
  const listed = useListedRollouts(jobId);
  const reload = useReload(jobId);
  const now = useNow(isActive);
  const act = useAct(jobId);
  const download = useDownload();
  const remove = useDeleteJob(jobId);

  const search = useSearch();
  const [path, navigate] = useLocation();
  const axis = parseAxis(search);
  const isSpentWanted = axis !== "step" && job.data !== undefined && job.data.current_step !== null;
  const spent = useComparedCurves(isSpentWanted ? [job.data] : []);

  const known = curves.data ?? NO_CURVES;
  const [zoom, setZoom] = useState<Zoom | null>(null);
  const onZoom = useCallback((next: Zoom | null) => setZoom((old) => (isSame(old, next) ? old : next)), []);
  const detail = useDetail(jobId, zoom, known.data.length < known.steps);
  const shown = useMemo(() => refined(known, detail.data), [known, detail.data]);
  const bestStep = job.data?.best_step ?? null;
  const rows = useMemo(
    () => checkpointRows(checkpoints.data?.data ?? [], known.data, bestStep),
    [checkpoints.data, known, bestStep],
  );
  const log = useMemo(
    () => mergeEvents(liveEvents.data, events.data?.pages.map((page) => page.data) ?? []),
    [liveEvents.data, events.data],
  );
  const marked = useEventsOf(jobId, MARKED_CODES);
  const markers = useMemo(
    () => markersOf(rows, mergeEvents(liveEvents.data, [marked.data?.data ?? []]), known.data),
    [rows, liveEvents.data, marked.data, known.data],
  );
  const tools = useMemo(() => (job.data ? readOrder(job.data.method).tools.map((tool) => tool.name) : []), [job.data]);
  const colors = useMemo(() => toolColors(tools), [tools]);
  const alarms = useMemo(() => (job.data ? alarmsOf(job.data, known, now) : []), [job.data, known, now]);
  const notices = useNotices(job.data, alarms);
  const isShown = job.data !== undefined && curves.data !== undefined && endpoints.data !== undefined;
  useEffect(() => {
    // A link from elsewhere leads to a part that was not there yet.
    if (isShown && location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }, [isShown]);
  const problem = job.error ?? curves.error;

  return (
    <>
      <Trail parts={[{ label: "Jobs", href: "/" }, { label: jobId }]} />
      <title>{`${job.data?.user_provided_suffix ?? jobId} · Agent RFT`}</title>
      {problem && <Problem error={problem} onRetry={reload} />}
      {(job.isPending || (curves.isPending && !problem)) && <Skeleton height={420} />}
      {job.data && curves.data && (
        <>
          <JobHeader
            job={job.data}
            now={now}
            liveness={<LivenessMark liveness={liveness} />}
            actions={
              <>
                {notices && isActive && (
                  <NotifyButton isWanted={notices.isWanted} onChange={() => void notices.change()} />
                )}
                <JobActions
                  jobId={jobId}
                  actions={actions(job.data)}
                  isBusy={act.isPending || remove.isPending}
                  onAct={act.mutate}
                  onDelete={
                    isTerminal(job.data)
                      ? () => remove.mutate(undefined, { onSuccess: () => navigate("/") })
                      : undefined
                  }
                />
              </>
            }
          />
          <RefusedAction
            error={act.error ?? remove.error ?? download.error}
            onClose={() => (act.reset(), remove.reset(), download.reset())}
          />
          <JobProblem job={job.data} />
          <HoldBanner job={job.data} now={now} />
          <Alarms alarms={alarms.filter((alarm) => !SAID_ABOVE.includes(alarm.key))} />
          {endpoints.data && <Refusals endpoints={endpoints.data.data} />}
          <Tiles job={job.data} curves={known} />
          <Curves
            job={job.data}
            curves={shown}
            {...{ tools, markers, axis, zoom, onZoom }}
            onAxis={(next) => navigate(path + withAxis(search, next), { replace: true })}
            spent={{ curves: spent.data?.get(jobId), error: spent.error, onRetry: () => void spent.refetch() }}
          />
          <DiagnosticsPanel {...{ jobId, tools, zoom, onZoom }} />
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
              {checkpoints.error && <Problem error={checkpoints.error} onRetry={() => void checkpoints.refetch()} />}
              {checkpoints.isPending && <Skeleton height={160} />}
              {checkpoints.data && <Checkpoints rows={rows} isOver={!isActive} />}
              <Usage
                job={job.data}
                colors={colors}
                isLoading={download.isPending}
                onDownload={(fileId) => download.mutate({ fileId, name: `${jobId}.csv` })}
              />
              <Setup job={job.data} />
            </div>
            <EventLog
              events={log}
              isLoaded={events.data !== undefined}
              now={now}
              view={view}
              onView={setView}
              hasMore={events.hasNextPage}
              onMore={() => void events.fetchNextPage()}
            >
              {events.error && <Problem error={events.error} onRetry={() => void events.refetch()} />}
              {events.isPending && <Skeleton height={160} />}
            </EventLog>
          </div>
          <RolloutsPanel jobId={jobId} isActive={isActive} listed={listed} />
        </>
      )}
    </>
  );
}
