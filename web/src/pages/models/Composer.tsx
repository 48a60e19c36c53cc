import { type FormEvent, type KeyboardEvent, useState } from "react";

interface Props {
  isBusy: boolean;
  onSay(said: string): void;
  onStop(): void;
  onClear(): void;
}

/** Where one writes. Enter sends. */
export function Composer({ isBusy, onSay, onStop, onClear }: Props) {
  const [said, setSaid] = useState("");
  const say = () => {
    if (isBusy || said.trim() === "") return;
    onSay(said);
    setSaid("");
  };
  const onSubmit = (event: FormEvent) => (event.preventDefault(), say());
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    say();
  };
  return (
    <form className="composer" onSubmit={onSubmit}>
      <label className="visually-hidden" htmlFor="said">
        Message
      </label>
      <textarea
        id="said"
        rows={2}
        value={said}
        placeholder="Message (Enter sends, Shift+Enter begins a line)"
        onChange={(event) => setSaid(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <div className="actions">
        {isBusy ? (
          <button type="button" onClick={onStop}>
            Stop
          </button>
        ) : (
          <button type="submit" className="primary" disabled={said.trim() === ""}>
            Send
          </button>
        )}
        <button type="button" disabled={isBusy} onClick={onClear}>
          New conversation
        </button>
      </div>
    </form>
  );
}
