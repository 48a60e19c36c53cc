/** What the customer ordered, read from `method` as it was written. */
import type { Job } from "../api/types";
import { fieldsOf } from "./json_fields";

export interface ToolOrder {
  name: string;
  url: string;
  /** Names; the values are redacted. */
  headers: string[];
}

export interface GraderOrder {
  name: string;
  type: string;
  url: string | null;
  /** The model that judges. */
  judge: string | null;
  /** The graders it is made of. */
  parts: GraderOrder[];
}

export interface JobOrder {
  grader: GraderOrder | null;
  tools: ToolOrder[];
  maxToolCalls: number | null;
  /** As written: numbers or `auto`. */
  hyperparameters: Record<string, string>;
  /** Whether its loss takes advantages over the standard deviation of their group. */
  scalesAdvantages: boolean;
}

/** Tolerant: an older job or another method simply shows less. */
export function readOrder(method: Job["method"]): JobOrder {
  const reinforcement = child(method, "reinforcement");
  const grader = child(reinforcement, "grader");
  const tools = reinforcement["tools"];
  const steps = reinforcement["max_episode_steps"];
  return {
    grader: text(grader, "type") ? readGrader(grader) : null,
    tools: (Array.isArray(tools) ? tools : []).map((tool) => ({
      name: text(fieldsOf(tool), "name"),
      url: text(fieldsOf(tool), "server_url"),
      headers: Object.keys(child(fieldsOf(tool), "headers")),
    })),
    maxToolCalls: typeof steps === "number" ? steps : null,
    hyperparameters: Object.fromEntries(
      Object.entries(child(reinforcement, "hyperparameters")).map(([name, value]) => [name, String(value)]),
    ),
    scalesAdvantages: reinforcement["loss_type"] !== "dr_grpo",
  };
}

function readGrader(grader: Record<string, unknown>): GraderOrder {
  return {
    name: text(grader, "name") || text(grader, "type"),
    type: text(grader, "type"),
    url: text(grader, "url") || null,
    judge: text(grader, "model") || null,
    parts: Object.values(child(grader, "graders")).map((part) => readGrader(fieldsOf(part))),
  };
}

type Resolved = NonNullable<Job["resolved_hyperparameters"]>;

export interface Setting {
  label: string;
  value: string;
  /** The customer left it to the platform, and this is what became of it. */
  isAuto: boolean;
}

const LABELS: [keyof Resolved, string][] = [
  ["n_epochs", "Epochs"],
  ["batch_size", "Rows per step"],
  ["group_size", "Rollouts per row"],
  ["compute_multiplier", "Compute multiplier"],
  ["learning_rate_multiplier", "Learning rate multiplier"],
  ["eval_interval", "Evaluated every"],
  ["eval_samples", "Rollouts per validation row"],
  ["temperature", "Temperature"],
  ["beta", "Weight of the KL divergence"],
  ["warmup_steps", "Warm-up steps"],
  ["lr_scheduler_type", "Learning rate schedule"],
  ["max_staleness", "Staleness at most"],
  ["policy_pin", "Policy version is kept for"],
];

/** Each hyperparameter with the value that is really used. */
export function settings(job: Job): Setting[] {
  const { hyperparameters } = readOrder(job.method);
  return LABELS.flatMap(([name, label]) => {
    const used = job.resolved_hyperparameters?.[name] ?? hyperparameters[name];
    if (used === undefined) return [];
    const value = name === "eval_interval" && used !== "auto" ? `${String(used)} steps` : String(used);
    return [{ label, value, isAuto: hyperparameters[name] === "auto" && used !== "auto" }];
  });
}

function child(parent: unknown, name: string): Record<string, unknown> {
  return fieldsOf(fieldsOf(parent)[name]);
}

function text(parent: Record<string, unknown>, name: string): string {
  const value = parent[name];
  return typeof value === "string" ? value : "";
}
