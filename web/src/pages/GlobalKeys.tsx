import { useLayoutEffect, useState } from "react";
import { useLocation } from "wouter";
import { CancelQuestion } from "../components/JobActions";
import { KeyList } from "../components/KeyList";
import { Palette } from "../components/Palette";
import { RefusedAction } from "../components/RefusedAction";
import { useActOnAny } from "../data/actions";
import { useRehearsalActions, useRehearsals } from "../data/endpoints";
import { useCancelRun, useEvals } from "../data/evals";
import { useAllFiles } from "../data/files";
import { useNotifying } from "../data/notices";
import { useFoundJobs, useKnownJob } from "../data/queries";
import { useSession } from "../data/session";
import { asked, type Command, type Operation, offered } from "../lib/commands";
import { globalKey, takesText } from "../lib/keys";
import { jobOf } from "../lib/sections";

type Open = "search" | "keys" | null;
type JobOperation = Extract<Operation, { kind: "job" }>;

interface Props {
  open: Open;
  onOpen(open: Open): void;
}

/** What keys open from every page, and what the platform said to an action that was chosen there. */
export function GlobalKeys({ open, onOpen }: Props) {
  const [, navigate] = useLocation();
  const { signOut } = useSession();
  const [question, setQuestion] = useState<JobOperation | null>(null);
  const act = useActOnAny();
  const cancelRun = useCancelRun();
  const { cancel: cancelRehearsal } = useRehearsalActions();
  const notifying = useNotifying();
  // Before the page is seen: whoever sees it may press a key.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const wanted = globalKey(event, takesText(document.activeElement));
      if (wanted === null || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      onOpen(wanted);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [onOpen]);

  const carryOut = ({ jobId, action }: JobOperation) =>
    act.mutate({ jobId, action }, { onSuccess: () => navigate(`/jobs/${jobId}`) });
  const onChoose = ({ does }: Command) => {
    onOpen(null);
    if (typeof does === "string") return navigate(does);
    switch (does.kind) {
      case "keys":
        return onOpen("keys");
      case "sign-out":
        return signOut();
      case "notices":
        return void notifying?.change();
      case "eval-run":
        return cancelRun.mutate(does, { onSuccess: () => navigate(`/evals/${does.evalId}/runs/${does.runId}`) });
      case "rehearsal":
        return cancelRehearsal.mutate(does.id, { onSuccess: () => navigate("/endpoints") });
      case "job":
        return does.action === "cancel" ? setQuestion(does) : carryOut(does);
    }
  };
  return (
    <>
      <RefusedAction error={act.error} onClose={act.reset} />
      <RefusedAction error={cancelRun.error} onClose={cancelRun.reset} />
      <RefusedAction error={cancelRehearsal.error} onClose={cancelRehearsal.reset} />
      {open === "search" && <Search onChoose={onChoose} onClose={() => onOpen(null)} />}
      {open === "keys" && <KeyList onClose={() => onOpen(null)} />}
      {question && (
        <CancelQuestion job={question.name} onConfirm={() => carryOut(question)} onClose={() => setQuestion(null)} />
      )}
    </>
  );
}

function Search({ onChoose, onClose }: { onChoose(command: Command): void; onClose(): void }) {
  const [typed, setTyped] = useState("");
  const [path] = useLocation();
  const found = useFoundJobs(asked(typed).query);
  const current = useKnownJob(jobOf(path));
  const evals = useEvals();
  const files = useAllFiles(undefined);
  const rehearsals = useRehearsals();
  const notifying = useNotifying();
  const known = {
    jobs: found.data?.data ?? [],
    current: current.data,
    evals: evals.data?.pages.flatMap((page) => page.data) ?? [],
    files: files.data?.pages.flatMap((page) => page.data) ?? [],
    rehearsals: rehearsals.data ?? [],
    isNotifying: notifying?.isWanted ?? null,
  };
  return (
    <Palette
      typed={typed}
      onType={setTyped}
      commands={offered(typed, known)}
      isSearching={found.isFetching || evals.isPending || files.isPending}
      error={found.error ?? evals.error ?? files.error ?? rehearsals.error}
      onChoose={onChoose}
      onClose={onClose}
    />
  );
}
