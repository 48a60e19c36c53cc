import { type FormEvent, useState } from "react";

interface Props {
  /** The key that was tried last was refused. */
  wasRefused: boolean;
  onKey(key: string): void;
}

/** Asks for an API key. */
export function KeyForm({ wasRefused, onKey }: Props) {
  const [key, setKey] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (key.trim()) onKey(key.trim());
  };
  return (
    <main>
      <form className="key-form" onSubmit={submit}>
        <h1>Agent RFT</h1>
        <p className="muted">
          <code>rft up</code> prints an address that signs you in, and the API key. Paste the key here to go on without
          it.
        </p>
        {wasRefused && (
          <p className="bad" role="alert">
            The platform does not know this key.
          </p>
        )}
        <label>
          API key
          <input
            type="password"
            name="api-key"
            autoComplete="off"
            autoFocus
            value={key}
            onChange={(event) => setKey(event.target.value)}
          />
        </label>
        <button type="submit" className="primary" disabled={!key.trim()}>
          Open the dashboard
        </button>
      </form>
    </main>
  );
}
