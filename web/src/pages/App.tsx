import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { ApiError } from "../api/http";
import { signIn, signOut } from "../api/session";
import { Shell } from "../components/Shell";
import { SignInForm } from "../components/SignInForm";
import { type Entry, messageOf, SessionContext } from "../data/session";
import { ConditionBars } from "./ConditionBars";
import { GlobalKeys } from "./GlobalKeys";
import { askAhead, Routes } from "./routes";

const HAS_ENDED = "Your session has ended. Sign in again.";

/** The dashboard: asks for a key while nobody is signed in. */
export function App({ start }: { start: Entry }) {
  const [entry, setEntry] = useState(start);
  const [isBusy, setBusy] = useState(false);

  const onKey = async (key: string) => {
    setBusy(true);
    try {
      await signIn(key);
      setEntry({ isIn: true, reason: null });
    } catch (error) {
      setEntry({ isIn: false, reason: messageOf(error) });
    } finally {
      setBusy(false);
    }
  };

  if (!entry.isIn) return <SignInForm reason={entry.reason} isBusy={isBusy} onKey={(key) => void onKey(key)} />;
  return <SignedIn onLeave={setEntry} />;
}

function SignedIn({ onLeave }: { onLeave(entry: Entry): void }) {
  const session = useMemo(() => {
    const leave = (reason: string | null) => onLeave({ isIn: false, reason });
    return {
      refuse: () => leave(HAS_ENDED),
      signOut: () =>
        void signOut().then(
          () => leave(null),
          (error: unknown) => leave(`You may still be signed in: ${messageOf(error)}`),
        ),
    };
  }, [onLeave]);
  const [open, setOpen] = useState<"search" | "keys" | null>(null);
  const cache = useMemo(() => {
    const created = createCache(session.refuse);
    askAhead(created, location.pathname);
    return created;
  }, [session]);
  return (
    <QueryClientProvider client={cache}>
      <SessionContext value={session}>
        <Shell onSearch={() => setOpen("search")} onKeys={() => setOpen("keys")} onSignOut={session.signOut}>
          <GlobalKeys open={open} onOpen={setOpen} />
          <ConditionBars />
          <Routes />
        </Shell>
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
    mutationCache: new MutationCache({ onError }),
    defaultOptions: {
      queries: {
        staleTime: 2_000,
        // The platform may be on this machine, whatever the browser thinks of the network.
        networkMode: "always",
        // What the API refused it refuses again; what did not reach it may.
        retry: (failures, error) =>
          failures < 2 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
        retryDelay: 500,
      },
      mutations: { networkMode: "always" },
    },
  });
}
