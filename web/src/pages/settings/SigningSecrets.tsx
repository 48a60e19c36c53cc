import { useState } from "react";
import type { SigningSecret } from "../../api/types";
import { Confirmation } from "../../components/Confirmation";
import { RefusedAction } from "../../components/RefusedAction";
import { Scroll } from "../../components/Scroll";
import { Problem, Skeleton } from "../../components/State";
import { useRetireSecret, useRotateSecret, useSecrets } from "../../data/settings";
import { dateTime } from "../../lib/format";
import { refusedOf } from "../../lib/refused";
import { ShownOnce } from "./ShownOnce";

/** What calls to customers' endpoints are signed with; two while one takes the other's place. */
export function SigningSecrets() {
  const secrets = useSecrets();
  const rotate = useRotateSecret();
  const retire = useRetireSecret();
  const [asked, setAsked] = useState<SigningSecret | null>(null);
  const active = secrets.data?.filter((secret) => secret.status === "active").length ?? 0;
  return (
    <section className="panel" aria-labelledby="secrets">
      <header>
        <h2 id="secrets">Signing secrets</h2>
        <span className="muted small">
          Every call to a tool or grader is signed with each active one (Standard Webhooks).
        </span>
        <span className="spacer" />
        <button
          type="button"
          disabled={rotate.isPending || rotate.data !== undefined}
          onClick={() => rotate.mutate(undefined)}
        >
          Make a new one
        </button>
      </header>
      {rotate.data && <ShownOnce title="The new secret" secret={rotate.data.secret} onClose={rotate.reset} />}
      <RefusedAction {...refusedOf(rotate, retire)} />
      {secrets.error && <Problem error={secrets.error} onRetry={() => void secrets.refetch()} />}
      {secrets.isPending && <Skeleton height={80} />}
      {secrets.data && (
        <Scroll label="Secrets">
          <table>
            <thead>
              <tr>
                <th>Secret</th>
                <th>Status</th>
                <th className="spare">Created</th>
                <th>
                  <span className="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {secrets.data.map((secret) => (
                <tr key={secret.id}>
                  <td className="mono">{secret.id}</td>
                  <td>
                    <span className={`badge ${secret.status === "active" ? "good" : ""}`}>{secret.status}</span>
                  </td>
                  <td className="spare muted nowrap">{dateTime(secret.created_at)}</td>
                  <td className="number">
                    {secret.status === "active" && (
                      <button type="button" disabled={active < 2} onClick={() => setAsked(secret)}>
                        Retire
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {asked && (
        <Confirmation
          title="Retire this secret?"
          consequence="Nothing is signed with it any more: servers that know only this one refuse our calls."
          label="Yes, retire"
          otherwise="Keep it"
          onConfirm={() => retire.mutate(asked.id)}
          onClose={() => setAsked(null)}
        />
      )}
    </section>
  );
}
