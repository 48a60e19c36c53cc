/** The keys of the dashboard, as `?` lists them. */

export interface KeyGroup {
  title: string;
  keys: readonly (readonly [keys: string, meaning: string])[];
}

export const KEYS: readonly KeyGroup[] = [
  {
    title: "Everywhere",
    keys: [
      ["Ctrl K", "find a page, a job or an action"],
      ["?", "this list"],
      ["Esc", "close what is open"],
    ],
  },
  {
    title: "Charts",
    keys: [
      ["← →", "move the crosshair from step to step"],
      ["Shift ← →", "move the part that is looked at"],
      ["drag", "look closer; a double click shows all again"],
      ["Shift drag", "move the part that is looked at"],
    ],
  },
  {
    title: "Rollouts",
    keys: [
      ["j k", "next and previous, in the list and on a trace"],
      ["Enter", "open"],
      ["← →", "from token to token, in the text of a trace's tokens"],
      ["n p", "to the next and previous token there that stands out"],
    ],
  },
];

/** What a key asks for, wherever the focus is; in a field only what no text needs. */
export function globalKey(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">, isTyping: boolean) {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") return "search";
  if (event.key === "?" && !isTyping && !event.ctrlKey && !event.metaKey) return "keys";
  return null;
}

/** Whether what has the focus takes text. */
export function takesText(element: Element | null): boolean {
  return element !== null && element.matches("input, textarea, select, [contenteditable]");
}
