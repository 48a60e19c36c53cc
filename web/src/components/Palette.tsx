import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { type Command, keyOf, movedChoice } from "../lib/commands";

interface Props {
  typed: string;
  onType(text: string): void;
  commands: readonly Command[];
  isSearching: boolean;
  /** Why not everything could be searched. */
  error: Error | null;
  onChoose(command: Command): void;
  onClose(): void;
}

/** A field and what fits it; arrows choose, Enter goes there or does it. */
export function Palette({ typed, onType, commands, isSearching, error, onChoose, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useId();
  const [at, setAt] = useState(0);
  useEffect(() => dialog.current?.showModal(), []);
  const chosen = Math.min(at, Math.max(0, commands.length - 1));
  useEffect(() => {
    document.getElementById(`${list}-${chosen}`)?.scrollIntoView({ block: "nearest" });
  }, [list, chosen]);

  const onKeyDown = (event: KeyboardEvent) => {
    const command = commands[chosen];
    if (event.key === "Enter" && command) {
      // Or it would also press the button that has the focus in what opens.
      event.preventDefault();
      onChoose(command);
    }
    const moved = movedChoice(event.key, chosen, commands.length);
    if (moved === null) return;
    event.preventDefault();
    setAt(moved);
  };

  return (
    <dialog ref={dialog} className="palette" aria-label="Find a page, a job or an action" onClose={onClose}>
      <input
        type="text"
        role="combobox"
        aria-label="Page, job or action"
        aria-expanded={commands.length > 0}
        aria-controls={list}
        aria-activedescendant={commands.length > 0 ? `${list}-${chosen}` : undefined}
        placeholder="A page, a job's name, id or metadata, or an action such as: pause finance"
        autoComplete="off"
        value={typed}
        onChange={(event) => (onType(event.target.value), setAt(0))}
        onKeyDown={onKeyDown}
      />
      <div id={list} role="listbox" aria-label="What fits">
        {commands.map((command, i) => (
          // oxlint-disable-next-line jsx-a11y/click-events-have-key-events -- the field has the keys
          <div
            key={keyOf(command)}
            id={`${list}-${i}`}
            role="option"
            tabIndex={-1}
            aria-selected={i === chosen}
            onClick={() => onChoose(command)}
          >
            <span>{command.label}</span>
            <span className="muted small">{command.detail}</span>
          </div>
        ))}
      </div>
      {commands.length === 0 && <p className="muted">{isSearching ? "Searching" : "Nothing fits."}</p>}
      {error && <p className="bad small">{`Not all could be searched: ${error.message}`}</p>}
    </dialog>
  );
}
