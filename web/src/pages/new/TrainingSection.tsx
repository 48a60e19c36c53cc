import type { Estimate } from "../../api/types";
import type { Draft } from "../../lib/draft";
import { fixed } from "../../lib/format";
import { ChoiceField, REINFORCEMENT, TextField } from "../../components/order/fields";

interface Props {
  draft: Draft;
  /** What `auto` becomes; null: not known yet. */
  resolved: Estimate["hyperparameters"] | null;
  onChange(change: Partial<Draft>): void;
}

type Resolved = Estimate["hyperparameters"];
interface Setting {
  name: keyof Resolved;
  label: string;
  hint: string;
  /** What it is where nothing is typed, of one that is not `auto` then. */
  whereAbsent?: string;
}

const USUAL: readonly Setting[] = [
  { name: "n_epochs", label: "Epochs", hint: "How often each row comes." },
  { name: "batch_size", label: "Rows per step", hint: "Up to 256." },
  { name: "compute_multiplier", label: "Compute multiplier", hint: "Rollouts per row: 8 times this, 2 at least." },
  { name: "learning_rate_multiplier", label: "Learning rate multiplier", hint: "" },
  { name: "eval_interval", label: "Steps between evaluations", hint: "" },
  { name: "eval_samples", label: "Rollouts per validation row", hint: "" },
];
const RARE: readonly Setting[] = [
  { name: "temperature", label: "Temperature", hint: "Rollouts are sampled at it." },
  { name: "beta", label: "Weight of the KL divergence", hint: "" },
  { name: "epsilon", label: "Clip range below 1", hint: "" },
  { name: "epsilon_high", label: "Clip range above 1", hint: "" },
  { name: "warmup_steps", label: "Warm-up steps", hint: "" },
  {
    name: "max_staleness",
    label: "Staleness",
    hint: "Steps whose rollouts may run while one is trained, or auto. Empty: 0, none.",
    whereAbsent: "0",
  },
  { name: "resample_zero_variance", label: "Further rows without signal", hint: "Rounds of them in a step at most." },
];
const EFFORTS = ["", "none", "minimal", "low", "medium", "high"];
const PINS = ["", "turn"];
const SCHEDULES = ["", "linear", "cosine", "constant"];

/** How it learns. What is left empty says what it is then. */
export function TrainingSection({ draft, resolved, onChange }: Props) {
  const values = draft.hyperparameters;
  const set = (name: string) => (value: string) => onChange({ hyperparameters: { ...values, [name]: value } });
  const input = ({ name, label, hint, whereAbsent }: Setting) => (
    <TextField
      key={name}
      label={label}
      path={`${REINFORCEMENT}.hyperparameters.${name}`}
      hint={hint}
      placeholder={whereAbsent ?? autoText(resolved?.[name])}
      value={values[name] ?? ""}
      onChange={set(name)}
    />
  );
  const choice = (name: string, label: string, options: readonly string[], auto: string) => (
    <ChoiceField
      label={label}
      path={`${REINFORCEMENT}.hyperparameters.${name}`}
      value={values[name] ?? ""}
      options={options.map((option) => ({ value: option, label: option || auto }))}
      onChange={set(name)}
    />
  );
  return (
    <section className="panel" aria-labelledby="new-training">
      <header>
        <h2 id="new-training">Training</h2>
        <span className="muted small">Empty means auto</span>
      </header>
      <div className="form three">
        {USUAL.map(input)}
        <TextField
          label="Tool calls per rollout"
          path={`${REINFORCEMENT}.max_episode_steps`}
          hint="At most."
          placeholder="50"
          value={draft.max_episode_steps}
          onChange={(max_episode_steps) => onChange({ max_episode_steps })}
        />
        {choice("reasoning_effort", "Reasoning effort", EFFORTS, "default")}
        <TextField
          label="Seed"
          path="seed"
          placeholder="drawn"
          value={draft.seed}
          onChange={(seed) => onChange({ seed })}
        />
        <details className="wide" open={draft.more.trim() !== ""}>
          <summary>More settings</summary>
          <div className="form three">
            {RARE.map(input)}
            {choice("policy_pin", "Policy version is kept for", PINS, "rollout")}
            {choice("lr_scheduler_type", "Learning rate schedule", SCHEDULES, autoText(resolved?.lr_scheduler_type))}
            <TextField
              label="Further fields of method.reinforcement, as JSON"
              path={REINFORCEMENT}
              hint="response_format, budgets, lora, early_stop, loss_type, baselines"
              wide
              rows={4}
              isCode
              value={draft.more}
              onChange={(more) => onChange({ more })}
            />
          </div>
        </details>
      </div>
    </section>
  );
}

function autoText(value: unknown): string {
  if (typeof value === "number") return `auto: ${Number.isInteger(value) ? value : fixed(value, 2)}`;
  return typeof value === "string" ? `auto: ${value}` : "auto";
}
