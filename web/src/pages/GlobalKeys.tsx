import { useLayoutEffect, useState } from "react";
import { useLocation } from "wouter";
import { CancelQuestion } from "../components/JobActions";
import { KeyList } from "../components/KeyList";
import { Palette } from "../components/Palette";
import { RefusedAction } from "../components/RefusedAction";
import { useActOnAny } from "../data/actions";
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
    if (typeof does === "string") navigate(does);
    else if (does.kind === "keys") onOpen("keys");
    else if (does.kind === "sign-out") signOut();
    else if (does.action === "cancel") setQuestion(does);
    else carryOut(does);
  };
  return (
    <>
      <RefusedAction error={act.error} onClose={act.reset} />
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
  return (
    <Palette
      typed={typed}
      onType={setTyped}
      commands={offered(typed, found.data?.data ?? [], current.data)}
      isSearching={found.isFetching}
      onChoose={onChoose}
      onClose={onClose}
    />
  );
}
