import { type FormEvent, useState } from "react";
import type { Provider } from "../../api/types";
import { Confirmation } from "../../components/Confirmation";
import { RefusedAction } from "../../components/RefusedAction";
import { Refusal } from "../../components/Refusal";
import { Scroll } from "../../components/Scroll";
import { Empty, Problem, Skeleton } from "../../components/State";
import { useAddProvider, useProviders, useRemoveProvider } from "../../data/settings";

/** OpenAI-compatible endpoints, whose models answer evals and baselines. */
export function Providers() {
  const providers = useProviders();
  const remove = useRemoveProvider();
  const [isAdding, setAdding] = useState(false);
  const [asked, setAsked] = useState<Provider | null>(null);
  return (
    <section className="panel" aria-labelledby="providers">
      <header>
        <h2 id="providers">Providers</h2>
        <span className="muted small">
          Their models are named <code>PROVIDER/MODEL</code> in evals and baselines.
        </span>
        <span className="spacer" />
        <button type="button" aria-expanded={isAdding} onClick={() => setAdding(!isAdding)}>
          Add a provider
        </button>
      </header>
      {isAdding && <NewProvider onClose={() => setAdding(false)} />}
      <RefusedAction error={remove.error} onClose={remove.reset} />
      {providers.error && <Problem error={providers.error} onRetry={() => void providers.refetch()} />}
      {providers.isPending && <Skeleton height={80} />}
      {providers.data?.length === 0 && !isAdding && <Empty title="No providers" />}
      {providers.data && providers.data.length > 0 && (
        <Scroll label="Providers">
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th>Address</th>
                <th className="spare">Key</th>
                <th className="spare number">At once</th>
                <th>
                  <span className="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {providers.data.map((provider) => (
                <tr key={provider.id}>
                  <td>{provider.name}</td>
                  <td className="mono address">{provider.base_url}</td>
                  <td className="spare mono">{provider.api_key ?? "none"}</td>
                  <td className="spare number">{provider.max_concurrency}</td>
                  <td className="number">
                    <button type="button" onClick={() => setAsked(provider)} aria-label={`Remove ${provider.name}`}>
                      Remove
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {asked && (
        <Confirmation
          title={`Remove “${asked.name}”?`}
          consequence="Its key is forgotten. Runs that are under way go on."
          label="Yes, remove"
          otherwise="Keep it"
          onConfirm={() => remove.mutate(asked.id)}
          onClose={() => setAsked(null)}
        />
      )}
    </section>
  );
}

const EMPTY = { name: "", base_url: "", api_key: "" };

function NewProvider({ onClose }: { onClose(): void }) {
  const add = useAddProvider();
  const [form, setForm] = useState(EMPTY);
  const [probe, setProbe] = useState(true);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const { api_key: key, ...rest } = form;
    add.mutate({ ...rest, ...(key && { api_key: key }), probe }, { onSuccess: onClose });
  };
  const input = (field: keyof typeof EMPTY, label: string, more: { type?: string; placeholder: string }) => (
    <label className="field">
      {label}
      <input
        value={form[field]}
        required={field !== "api_key"}
        autoComplete="off"
        onChange={(event) => setForm({ ...form, [field]: event.target.value })}
        {...more}
      />
    </label>
  );
  return (
    <form className="form-body new-provider" aria-label="New provider" onSubmit={submit}>
      {input("name", "Name", { placeholder: "openai" })}
      {input("base_url", "Address", { placeholder: "https://api.openai.com/v1", type: "url" })}
      {input("api_key", "Key", { placeholder: "encrypted at rest, never shown again", type: "password" })}
      <label className="check">
        <input type="checkbox" checked={probe} onChange={(event) => setProbe(event.target.checked)} />
        Ask it for its models first: a wrong address or key is refused
      </label>
      {add.error && <Refusal error={add.error} />}
      <div className="actions">
        <button type="submit" className="primary" disabled={add.isPending}>
          Add
        </button>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </form>
  );
}
