/** What a form says of a new run, as the order of it. */
import type { RunOrder } from "../api/evals";
import type { EvalRun } from "../api/types";
import { number } from "./draft_order";
import { fieldsOf } from "./json_fields";
import { type Carried, carriedFrom, isRegistered, messageText, NOTHING, written } from "./run_carried";

export interface RunForm {
  name: string;
  fileId: string;
  /** Whether a model answers, or the file's own samples are judged. */
  isSampled: boolean;
  model: string;
  system: string;
  prompt: string;
  samples: string;
  temperature: string;
  maxTokens: string;
  /** Ids of registered tools that are really called. */
  tools: readonly string[];
  /** What has no input. */
  carried: Carried;
}

/** As the last run that a model answered, where there is one. */
export function startOf(latest: EvalRun | null, fields: readonly string[]): RunForm {
  const source = fieldsOf(latest?.data_source);
  const sampling = fieldsOf(source.sampling_params);
  const carried = latest === null ? NOTHING : carriedFrom(latest);
  const tools = (Array.isArray(sampling.tools) ? sampling.tools : []).map(fieldsOf);
  const first = fields.find((name) => name === "question" || name === "prompt" || name === "input") ?? fields[0];
  return {
    name: "",
    fileId: text(fieldsOf(source.source).id),
    isSampled: true,
    model: latest?.model ?? "",
    system: messageText(carried.instructions),
    prompt: messageText(carried.prompt) || (first ? `{{item.${first}}}` : ""),
    samples: String(latest?.samples_per_row ?? 1),
    temperature: text(sampling.temperature),
    maxTokens: text(sampling.max_completion_tokens),
    tools: tools.filter(isRegistered).map((tool) => text(tool.id)),
    carried,
  };
}

/** What the API is asked. */
export function orderOf(form: RunForm): RunOrder {
  const source = { type: "file_id", id: form.fileId };
  const name = form.name.trim() ? { name: form.name.trim() } : {};
  if (!form.isSampled) return { ...name, data_source: { type: "jsonl", source } };
  const { sampling, tools, metadata, source: others } = form.carried;
  const called = [...form.tools.map((id) => ({ id })), ...tools];
  return {
    ...name,
    ...(metadata && { metadata }),
    samples_per_row: form.samples.trim() ? number(form.samples) : 1,
    data_source: {
      type: "completions",
      ...others,
      model: form.model.trim(),
      source,
      input_messages: messagesOf(form),
      sampling_params: {
        ...sampling,
        ...(form.temperature.trim() && { temperature: number(form.temperature) }),
        ...(form.maxTokens.trim() && { max_completion_tokens: number(form.maxTokens) }),
        ...(called.length > 0 && { tools: called }),
      },
    },
  };
}

function messagesOf({ carried, system, prompt }: RunForm) {
  if (carried.messages !== null) return carried.messages;
  const instructions = system.trim() ? [written(carried.instructions, "developer", system)] : [];
  return { type: "template", template: [...instructions, ...carried.between, written(carried.prompt, "user", prompt)] };
}

/** Whether all is there that a run cannot do without. */
export function isWhole({ fileId, isSampled, model, prompt, carried }: RunForm): boolean {
  if (fileId === "") return false;
  return !isSampled || (model.trim() !== "" && (carried.messages !== null || prompt.trim() !== ""));
}

export const SOURCE = "data_source";
export const SAMPLING = `${SOURCE}.sampling_params`;
const MESSAGES = `${SOURCE}.input_messages.template`;

/** Where the API finds the two messages of `orderOf`: instructions first, where there are any, and the prompt last. */
export function messagePaths(form: RunForm): { system: string; prompt: string } {
  const isInstructed = form.system.trim() !== "";
  return {
    system: isInstructed ? `${MESSAGES}[0]` : `${MESSAGES}.none`,
    prompt: `${MESSAGES}[${(isInstructed ? 1 : 0) + form.carried.between.length}]`,
  };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
}
