import { useLayoutEffect, useState } from "react";
import { useLocation } from "wouter";
import { KeyList } from "../components/KeyList";
import { Palette } from "../components/Palette";
import { useFoundJobs } from "../data/queries";
import { offered } from "../lib/commands";
import { globalKey, takesText } from "../lib/keys";

type Open = "search" | "keys" | null;

interface Props {
  open: Open;
  onOpen(open: Open): void;
}

/** What keys open from every page. */
export function GlobalKeys({ open, onOpen }: Props) {
  // Before the page is seen: whoever sees it may press a key.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const asked = globalKey(event, takesText(document.activeElement));
      if (asked === null || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      onOpen(asked);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [onOpen]);
  if (open === "search") return <Search onClose={() => onOpen(null)} />;
  if (open === "keys") return <KeyList onClose={() => onOpen(null)} />;
  return null;
}

function Search({ onClose }: { onClose(): void }) {
  const [typed, setTyped] = useState("");
  const [, navigate] = useLocation();
  const found = useFoundJobs(typed.trim());
  return (
    <Palette
      typed={typed}
      onType={setTyped}
      commands={offered(typed, found.data?.data ?? [])}
      isSearching={found.isFetching}
      onChoose={(command) => (onClose(), navigate(command.href))}
      onClose={onClose}
    />
  );
}
