import type { RegisteredTool } from "../../api/types";
import { type Draft, NEW_TOOL, type ToolDraft } from "../../lib/draft";
import { ChoiceField, PartProblem, REINFORCEMENT, TextField } from "../../components/order/fields";
import { Headers } from "../../components/order/Headers";
import { ToolDryRun } from "./ToolDryRun";

interface Props {
  draft: Draft;
  registered: readonly RegisteredTool[];
  onChange(change: Partial<Draft>): void;
}

/** What the model may call. */
export function ToolsSection({ draft, registered, onChange }: Props) {
  const { tools } = draft;
  const change = (at: number, next: Partial<ToolDraft>) =>
    onChange({ tools: tools.map((tool, i) => (i === at ? { ...tool, ...next } : tool)) });
  const first = registered[0];
  return (
    <section className="panel" aria-labelledby="new-tools">
      <header>
        <h2 id="new-tools">Tools</h2>
        <span className="muted small">Your servers, which the model calls over HTTP</span>
      </header>
      <div className="parts">
        <PartProblem path={`${REINFORCEMENT}.tools`} />
        {tools.map((tool, i) => (
          <ToolForm
            key={i}
            at={i}
            tool={tool}
            registered={registered}
            onChange={(next) => change(i, next)}
            onRemove={() => onChange({ tools: tools.filter((_, at) => at !== i) })}
          />
        ))}
        {tools.length === 0 && <p className="muted">Without tools the model answers from what it is asked.</p>}
        <div className="actions">
          <button type="button" onClick={() => onChange({ tools: [...tools, NEW_TOOL] })}>
            Add a tool by its URL
          </button>
          {first && (
            <button
              type="button"
              onClick={() => onChange({ tools: [...tools, { ...NEW_TOOL, registered: first.id }] })}
            >
              Add a registered tool
            </button>
          )}
        </div>
      </div>
    </section>
  );
}

interface ToolProps {
  at: number;
  tool: ToolDraft;
  registered: readonly RegisteredTool[];
  onChange(change: Partial<ToolDraft>): void;
  onRemove(): void;
}

function ToolForm({ at, tool, registered, onChange, onRemove }: ToolProps) {
  const path = `${REINFORCEMENT}.tools[${at}]`;
  const known = registered.find((one) => one.id === tool.registered);
  return (
    <fieldset className="part">
      <legend>{known?.name ?? (tool.name || `Tool ${at + 1}`)}</legend>
      <button type="button" className="part-remove" onClick={onRemove}>
        Remove
      </button>
      <PartProblem path={path} />
      <div className="form">
        {tool.registered ? (
          <ChoiceField
            label="Registered tool"
            path={`${path}.id`}
            hint={known?.server_url}
            value={tool.registered}
            options={registered.map((one) => ({ value: one.id, label: one.name }))}
            onChange={(id) => onChange({ registered: id })}
          />
        ) : (
          <>
            <TextField
              label="Name"
              path={`${path}.name`}
              hint="As the model calls it."
              value={tool.name}
              onChange={(name) => onChange({ name })}
            />
            <TextField
              label="URL"
              path={`${path}.server_url`}
              placeholder="https://tools.example.com/search"
              value={tool.server_url}
              onChange={(server_url) => onChange({ server_url })}
            />
            <Headers headers={tool.headers} onChange={(headers) => onChange({ headers })} />
            <details className="wide">
              <summary>Description and parameters, where the rows have none</summary>
              <TextField
                label="Description"
                path={`${path}.description`}
                hint="For the model to read."
                value={tool.description}
                onChange={(description) => onChange({ description })}
              />
              <TextField
                label="Parameters"
                path={`${path}.parameters`}
                hint="A JSON Schema of its arguments."
                rows={5}
                isCode
                value={tool.parameters}
                onChange={(parameters) => onChange({ parameters })}
              />
            </details>
          </>
        )}
        <ToolDryRun tool={tool} name={known?.name ?? tool.name} />
      </div>
    </fieldset>
  );
}
