import { useState } from "react";

export type View = "conversation" | "tokens";

export const VIEWS: readonly { value: View; label: string }[] = [
  { value: "conversation", label: "Conversation" },
  { value: "tokens", label: "Tokens" },
];

/** What of a trace is looked at, as it stands at the end of the address. */
export function hashOf(view: View): string {
  return view === "tokens" ? "#tokens" : "";
}

/** The view that the address asks for, until another one is chosen; the address follows. */
export function useView(): [View, (view: View) => void] {
  const [view, setView] = useState<View>(window.location.hash === "#tokens" ? "tokens" : "conversation");
  const choose = (chosen: View) => {
    setView(chosen);
    window.history.replaceState(
      window.history.state,
      "",
      window.location.pathname + window.location.search + hashOf(chosen),
    );
  };
  return [view, choose];
}
