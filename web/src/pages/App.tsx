import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { Route, Switch } from "wouter";
import { ApiError, createClient } from "../api/client";
import { KeyForm } from "../components/KeyForm";
import { SessionContext } from "../data/session";
import { STORAGE_KEY } from "../lib/key";
import { JobPage } from "./JobPage";
import { JobsPage } from "./JobsPage";
import { NotFoundPage } from "./NotFoundPage";
import { RolloutPage } from "./RolloutPage";

/** The dashboard: asks for a key while there is none that works. */
export function App() {
  const [apiKey, setApiKey] = useState(() => localStorage.getItem(STORAGE_KEY));
  const [wasRefused, setRefused] = useState(false);

  const signIn = (key: string) => {
    localStorage.setItem(STORAGE_KEY, key);
    setApiKey(key);
  };
  const leave = useCallback((isRefused: boolean) => {
    localStorage.removeItem(STORAGE_KEY);
    setApiKey(null);
    setRefused(isRefused);
  }, []);

  if (apiKey === null) return <KeyForm wasRefused={wasRefused} onKey={signIn} />;
  return <SignedIn key={apiKey} apiKey={apiKey} onLeave={leave} />;
}

function SignedIn({ apiKey, onLeave }: { apiKey: string; onLeave(isRefused: boolean): void }) {
  const cache = useMemo(() => createCache(() => onLeave(true)), [onLeave]);
  const session = useMemo(
    () => ({ apiKey, client: createClient(apiKey), signOut: () => onLeave(false), refuse: () => onLeave(true) }),
    [apiKey, onLeave],
  );
  return (
    <QueryClientProvider client={cache}>
      <SessionContext value={session}>
        <Switch>
          <Route path="/">
            <JobsPage />
          </Route>
          <Route path="/jobs/:jobId">{({ jobId }) => <JobPage key={jobId} jobId={jobId} />}</Route>
          <Route path="/jobs/:jobId/rollouts/:traceId">
            {({ jobId, traceId }) => <RolloutPage jobId={jobId} traceId={traceId} />}
          </Route>
          <Route>
            <NotFoundPage />
          </Route>
        </Switch>
      </SessionContext>
    </QueryClientProvider>
  );
}

function createCache(onRefused: () => void): QueryClient {
  const onError = (error: Error) => {
    if (error instanceof ApiError && error.status === 401) onRefused();
  };
  return new QueryClient({
    queryCache: new QueryCache({ onError }),
    defaultOptions: {
      queries: {
        staleTime: 2_000,
        // What the API refused it refuses again; what did not reach it may.
        retry: (failures, error) =>
          failures < 2 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
        retryDelay: 500,
      },
    },
  });
}
