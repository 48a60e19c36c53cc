/** Which address shows which page. Pages are loaded when they are first shown. */
import type { QueryClient } from "@tanstack/react-query";
import { type ComponentType, createElement, lazy, Suspense } from "react";
import { Route, Switch, useLocation } from "wouter";
import { ErrorBoundary } from "../components/ErrorBoundary";
import { Skeleton } from "../components/State";
import { curvesQuery, jobQuery } from "../data/queries";
import { rolloutQuery } from "../data/rollouts";
import { JobsPage } from "./jobs/JobsPage";
import { NotFoundPage } from "./NotFoundPage";

const NEXT_MS = 2_000;

type Page<P> = ComponentType<P> & { load(): Promise<void> };

/** A page that is loaded when it is first shown, or before: then it is there at once. A page that React itself waits for
 * comes 300 ms later than it could. */
function page<P extends object>(load: () => Promise<ComponentType<P>>): Page<P> {
  let loaded: ComponentType<P> | null = null;
  const loading = async () => ({ default: (loaded ??= await load()) });
  const Waiting = lazy(loading) as unknown as ComponentType<P>;
  const Shown = (props: P) => (loaded ? createElement(loaded, props) : <Waiting {...props} />);
  return Object.assign(Shown, { load: async () => void (await loading()) });
}

const NewJobPage = page(async () => (await import("./new/NewJobPage")).NewJobPage);
const ComparePage = page(async () => (await import("./compare/ComparePage")).ComparePage);
const JobPage = page(async () => (await import("./JobPage")).JobPage);
const RolloutPage = page(async () => (await import("./rollouts/RolloutPage")).RolloutPage);
const RolloutsPage = page(async () => (await import("./rollouts/RolloutsPage")).RolloutsPage);
const GroupPage = page(async () => (await import("./rollouts/GroupPage")).GroupPage);
const PairPage = page(async () => (await import("./rollouts/PairPage")).PairPage);
const JobVariancePage = page(async () => (await import("./variance/JobVariancePage")).JobVariancePage);
const ChangePage = page(async () => (await import("./change/ChangePage")).ChangePage);
const ModelsPage = page(async () => (await import("./models/ModelsPage")).ModelsPage);
const ChatPage = page(async () => (await import("./models/ChatPage")).ChatPage);
const DatasetsPage = page(async () => (await import("./datasets/DatasetsPage")).DatasetsPage);
const DatasetPage = page(async () => (await import("./datasets/DatasetPage")).DatasetPage);
const EndpointsPage = page(async () => (await import("./endpoints/EndpointsPage")).EndpointsPage);
const SettingsPage = page(async () => (await import("./settings/SettingsPage")).SettingsPage);
const EvalsPage = page(async () => (await import("./evals/EvalsPage")).EvalsPage);
const NewEvalPage = page(async () => (await import("./evals/NewEvalPage")).NewEvalPage);
const EvalPage = page(async () => (await import("./evals/EvalPage")).EvalPage);
const EvalRunPage = page(async () => (await import("./evals/EvalRunPage")).EvalRunPage);
const EvalComparePage = page(async () => (await import("./evals/EvalComparePage")).EvalComparePage);

interface OftenOpened {
  address: RegExp;
  page: { load(): Promise<void> };
  /** Ask for what the page needs first, by the ids of its address. */
  ask?(cache: QueryClient, jobId: string, traceId: string): void;
}

const OFTEN_OPENED: readonly OftenOpened[] = [
  {
    address: /^\/jobs\/([\w-]+)$/,
    page: JobPage,
    ask: (cache, jobId) => {
      void cache.prefetchQuery(curvesQuery(jobId));
      void cache.prefetchQuery(jobQuery(jobId));
    },
  },
  { address: /^\/jobs\/[^/]+\/rollouts$/, page: RolloutsPage },
  {
    address: /^\/jobs\/([\w-]+)\/rollouts\/([\w-]+)$/,
    page: RolloutPage,
    ask: (cache, jobId, traceId) => void cache.prefetchQuery(rolloutQuery(jobId, traceId)),
  },
];

/** Load the page of an address before it is shown. What fails is tried again, and told, when it is. */
export async function preload(path: string): Promise<void> {
  const found = OFTEN_OPENED.find(({ address }) => address.test(path));
  await found?.page.load().catch(() => undefined);
}

/** Load the pages that are opened next, while nothing else is to be done. */
export function preloadNext(): void {
  setTimeout(() => OFTEN_OPENED.forEach((next) => void next.page.load().catch(() => undefined)), NEXT_MS);
}

/** Ask for what the page of an address shows before it is drawn: the platform answers meanwhile. */
export function askAhead(cache: QueryClient, path: string): void {
  for (const { address, ask } of OFTEN_OPENED) {
    const [, jobId, traceId = ""] = address.exec(path) ?? [];
    if (jobId !== undefined) ask?.(cache, jobId, traceId);
  }
}

export function Routes() {
  const [path] = useLocation();
  return (
    <ErrorBoundary page={path}>
      <Suspense fallback={<Skeleton height={420} />}>
        <Switch>
          <Route path="/" component={JobsPage} />
          <Route path="/new" component={NewJobPage} />
          <Route path="/compare" component={ComparePage} />
          <Route path="/jobs/:jobId">{({ jobId }) => <JobPage key={jobId} jobId={jobId} />}</Route>
          <Route path="/jobs/:jobId/rollouts">{({ jobId }) => <RolloutsPage key={jobId} jobId={jobId} />}</Route>
          <Route path="/jobs/:jobId/groups/:split/:step/:row">
            {({ jobId, split, step, row }) => <GroupPage jobId={jobId} split={split} step={step} row={row} />}
          </Route>
          <Route path="/jobs/:jobId/rollouts/:traceId">
            {({ jobId, traceId }) => <RolloutPage jobId={jobId} traceId={traceId} />}
          </Route>
          <Route path="/jobs/:jobId/pair">{({ jobId }) => <PairPage key={jobId} jobId={jobId} />}</Route>
          <Route path="/jobs/:jobId/variance">{({ jobId }) => <JobVariancePage key={jobId} jobId={jobId} />}</Route>
          <Route path="/jobs/:jobId/change">{({ jobId }) => <ChangePage key={jobId} jobId={jobId} />}</Route>
          <Route path="/models" component={ModelsPage} />
          <Route path="/models/chat" component={ChatPage} />
          <Route path="/datasets" component={DatasetsPage} />
          <Route path="/datasets/:fileId">{({ fileId }) => <DatasetPage key={fileId} fileId={fileId} />}</Route>
          <Route path="/endpoints" component={EndpointsPage} />
          <Route path="/settings" component={SettingsPage} />
          <Route path="/evals" component={EvalsPage} />
          <Route path="/evals/new" component={NewEvalPage} />
          <Route path="/evals/:evalId">{({ evalId }) => <EvalPage key={evalId} evalId={evalId} />}</Route>
          <Route path="/evals/:evalId/compare">{({ evalId }) => <EvalComparePage evalId={evalId} />}</Route>
          <Route path="/evals/:evalId/runs/:runId">
            {({ evalId, runId }) => <EvalRunPage key={runId} evalId={evalId} runId={runId} />}
          </Route>
          <Route component={NotFoundPage} />
        </Switch>
      </Suspense>
    </ErrorBoundary>
  );
}
