import { type FormEvent, useState } from "react";

interface Props {
  /** Why nobody is signed in, where there is something to say. */
  reason: string | null;
  isBusy: boolean;
  onKey(key: string): void;
}

/** Asks for an API key. */
export function SignInForm({ reason, isBusy, onKey }: Props) {
  const [key, setKey] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (key.trim()) onKey(key.trim());
  };
  return (
    <main>
      <form className="sign-in" onSubmit={submit}>
        <h1>Agent RFT</h1>
        <p className="muted">
          <code>rft dashboard</code> prints a link that signs you in once. Or paste an API key: it is exchanged for a
          session, and kept nowhere.
        </p>
        {reason !== null && (
          <p className="bad" role="alert">
            {reason}
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
        <button type="submit" className="primary" disabled={isBusy || !key.trim()}>
          Sign in
        </button>
      </form>
    </main>
  );
}
