/** Which address shows which page. Pages are loaded when they are first shown. */
import { type ComponentType, lazy, Suspense } from "react";
import { Route, Switch, useLocation } from "wouter";
import { ErrorBoundary } from "../components/ErrorBoundary";
import { Skeleton } from "../components/State";
import { JobsPage } from "./jobs/JobsPage";
import { NotFoundPage } from "./NotFoundPage";

const page = <P extends object>(load: () => Promise<ComponentType<P>>) => lazy(async () => ({ default: await load() }));

const ComparePage = page(async () => (await import("./compare/ComparePage")).ComparePage);
const JobPage = page(async () => (await import("./JobPage")).JobPage);
const RolloutPage = page(async () => (await import("./RolloutPage")).RolloutPage);

export function Routes() {
  const [path] = useLocation();
  return (
    <ErrorBoundary page={path}>
      <Suspense fallback={<Skeleton height={420} />}>
        <Switch>
          <Route path="/" component={JobsPage} />
          <Route path="/compare" component={ComparePage} />
          <Route path="/jobs/:jobId">{({ jobId }) => <JobPage key={jobId} jobId={jobId} />}</Route>
          <Route path="/jobs/:jobId/rollouts/:traceId">
            {({ jobId, traceId }) => <RolloutPage jobId={jobId} traceId={traceId} />}
          </Route>
          <Route component={NotFoundPage} />
        </Switch>
      </Suspense>
    </ErrorBoundary>
  );
}
