import { useId } from "react";
import { PartProblem, TextField } from "../../components/order/fields";
import { useModels } from "../../data/models";
import { useTools } from "../../data/registry";
import { messagePaths, type RunForm, SAMPLING, SOURCE } from "../../lib/run_order";

interface Props {
  form: RunForm;
  /** Of an item. */
  fields: readonly string[];
  change(part: Partial<RunForm>): void;
}

/** Which model answers the items of a run, and how it is asked. */
export function Sampling({ form, change, fields }: Props) {
  const models = useModels();
  const listId = useId();
  return (
    <>
      <TextField
        label="Model"
        path={`${SOURCE}.model`}
        placeholder="a model, a checkpoint, or PROVIDER/MODEL"
        wide
        isCode
        isRequired
        list={listId}
        value={form.model}
        onChange={(model) => change({ model })}
      />
      <datalist id={listId}>
        {models.data?.map((model) => (
          <option key={model.id} value={model.id} aria-label={model.id} />
        ))}
      </datalist>
      {form.carried.messages === null && <Messages form={form} change={change} fields={fields} />}
      <div className="form three wide">
        <Amount
          label="Samples per item"
          path="samples_per_row"
          value={form.samples}
          onChange={(samples) => change({ samples })}
        />
        <Amount
          label="Temperature"
          path={`${SAMPLING}.temperature`}
          value={form.temperature}
          onChange={(temperature) => change({ temperature })}
        />
        <Amount
          label="Tokens at most"
          path={`${SAMPLING}.max_completion_tokens`}
          value={form.maxTokens}
          onChange={(maxTokens) => change({ maxTokens })}
        />
      </div>
      <Tools chosen={form.tools} onChange={(tools) => change({ tools })} />
    </>
  );
}

function Messages({ form, change, fields }: Props) {
  const paths = messagePaths(form);
  return (
    <>
      <TextField
        label="Instructions"
        path={paths.system}
        rows={2}
        wide
        value={form.system}
        onChange={(system) => change({ system })}
      />
      <TextField
        label="Prompt"
        path={paths.prompt}
        hint={`May name ${fields.map((name) => `{{item.${name}}}`).join(", ") || "fields of an item"}.`}
        rows={2}
        wide
        isCode
        isRequired
        value={form.prompt}
        onChange={(prompt) => change({ prompt })}
      />
    </>
  );
}

interface AmountProps {
  label: string;
  path: string;
  value: string;
  onChange(value: string): void;
}

function Amount(props: AmountProps) {
  return <TextField placeholder="default" {...props} />;
}

interface ToolsProps {
  /** Ids. */
  chosen: readonly string[];
  onChange(ids: readonly string[]): void;
}

function Tools({ chosen, onChange }: ToolsProps) {
  const registered = useTools().data ?? [];
  const others = chosen.filter((id) => registered.every((tool) => tool.id !== id));
  // What is called is seen, also where it is registered no more.
  const tools = [...registered, ...others.map((id) => ({ id, name: id }))];
  if (tools.length === 0) return null;
  return (
    <fieldset className="choices wide">
      <legend>Tools that are really called</legend>
      {tools.map((tool) => (
        <label key={tool.id} className="check">
          <input
            type="checkbox"
            checked={chosen.includes(tool.id)}
            onChange={(event) =>
              onChange(event.target.checked ? [...chosen, tool.id] : chosen.filter((id) => id !== tool.id))
            }
          />
          <span className="mono">{tool.name}</span>
        </label>
      ))}
      <PartProblem path={`${SAMPLING}.tools`} isAll />
    </fieldset>
  );
}
