import { useState } from "react";

const COPIED_MS = 1500;

/** Whether something was copied a moment ago, and how to copy. */
export function useCopying(): [boolean, (text: string) => void] {
  const [isCopied, setCopied] = useState(false);
  const copy = async (text: string) => {
    await toClipboard(text);
    setCopied(true);
    setTimeout(() => setCopied(false), COPIED_MS);
  };
  return [isCopied, (text) => void copy(text)];
}

/** Browsers have `navigator.clipboard` over https and on their own machine only. */
async function toClipboard(text: string): Promise<void> {
  const clipboard: Clipboard | undefined = navigator.clipboard;
  if (clipboard) return clipboard.writeText(text);
  const focused = document.activeElement;
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  // An open dialog lets nothing behind it be selected.
  (focused?.closest("dialog") ?? document.body).append(field);
  field.select();
  const isDone = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  if (!isDone) throw new Error("The browser does not let the page copy.");
}
