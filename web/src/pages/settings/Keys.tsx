import { type FormEvent, useState } from "react";
import type { ApiKey } from "../../api/types";
import { Confirmation } from "../../components/Confirmation";
import { RefusedAction } from "../../components/RefusedAction";
import { Scroll } from "../../components/Scroll";
import { Problem, Skeleton } from "../../components/State";
import { useCreateKey, useKeys, useRevokeKey } from "../../data/settings";
import { ago, dateTime } from "../../lib/format";
import { refusedOf } from "../../lib/refused";
import { useNow } from "../../data/clock";
import { ShownOnce } from "./ShownOnce";

/** API keys: made here, told once, revoked here. */
export function Keys() {
  const keys = useKeys();
  const create = useCreateKey();
  const revoke = useRevokeKey();
  const [name, setName] = useState("");
  const [asked, setAsked] = useState<ApiKey | null>(null);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate(name.trim(), { onSuccess: () => setName("") });
  };
  return (
    <section className="panel" aria-labelledby="keys">
      <header>
        <h2 id="keys">API keys</h2>
        <span className="muted small">Programs send one as a bearer token.</span>
        <span className="spacer" />
        <form className="actions" onSubmit={submit}>
          <input
            aria-label="Name of a new key"
            placeholder="who or what it is for"
            maxLength={128}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
          <button type="submit" disabled={name.trim() === "" || create.isPending || create.data !== undefined}>
            Create a key
          </button>
        </form>
      </header>
      {create.data && (
        <ShownOnce title={`The key “${create.data.name}”`} secret={create.data.key} onClose={create.reset} />
      )}
      <RefusedAction {...refusedOf(create, revoke)} />
      {keys.error && <Problem error={keys.error} onRetry={() => void keys.refetch()} />}
      {keys.isPending && <Skeleton height={100} />}
      {keys.data && <KeyTable keys={keys.data} onRevoke={setAsked} />}
      {asked && (
        <Confirmation
          title={`Revoke “${asked.name}”?`}
          consequence={
            "Whoever uses it is refused at once, and the browsers that it signed in are signed out." +
            (asked.is_callers ? " This browser is one of them." : "")
          }
          label="Yes, revoke"
          otherwise="Keep it"
          onConfirm={() => revoke.mutate(asked.id)}
          onClose={() => setAsked(null)}
        />
      )}
    </section>
  );
}

function KeyTable({ keys, onRevoke }: { keys: readonly ApiKey[]; onRevoke(key: ApiKey): void }) {
  const now = useNow(false);
  const usable = keys.filter((key) => key.revoked_at === null);
  const revoked = keys.filter((key) => key.revoked_at !== null);
  return (
    <Scroll label="Keys">
      <table>
        <thead>
          <tr>
            <th>Name</th>
            <th className="spare">Id</th>
            <th>Last used</th>
            <th className="spare">Created</th>
            <th>
              <span className="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {[...usable, ...revoked].map((key) => (
            <tr key={key.id} className={key.revoked_at === null ? "" : "muted"}>
              <td>
                {key.name} {key.is_callers && <span className="badge active">this browser's</span>}
              </td>
              <td className="spare mono">{key.id}</td>
              <td className="nowrap">{key.last_used_at === null ? "never" : ago(key.last_used_at, now)}</td>
              <td className="spare muted nowrap">{dateTime(key.created_at)}</td>
              <td className="number">
                {key.revoked_at === null ? (
                  <button type="button" disabled={usable.length === 1} onClick={() => onRevoke(key)}>
                    Revoke
                  </button>
                ) : (
                  "revoked"
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
