/** What a form says of a new run, as the order of it. */
import type { RunOrder } from "../api/evals";
import type { EvalRun } from "../api/types";
import { number } from "./draft_order";
import { fieldsOf } from "./json_fields";

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
}

/** As the last run that a model answered, where there is one. */
export function startOf(latest: EvalRun | null, fields: readonly string[]): RunForm {
  const source = fieldsOf(latest?.data_source);
  const messages = fieldsOf(source.input_messages).template;
  const template = Array.isArray(messages) ? messages.map(fieldsOf) : [];
  const sampling = fieldsOf(source.sampling_params);
  const ofRole = (isPrompt: boolean) =>
    template.find((message) => (message.role === "user") === isPrompt && typeof message.content === "string")?.content;
  const first = fields.find((name) => name === "question" || name === "prompt" || name === "input") ?? fields[0];
  return {
    name: "",
    fileId: text(fieldsOf(source.source).id),
    isSampled: true,
    model: latest?.model ?? "",
    system: text(ofRole(false)),
    prompt: text(ofRole(true)) || (first ? `{{item.${first}}}` : ""),
    samples: String(latest?.samples_per_row ?? 1),
    temperature: text(sampling.temperature),
    maxTokens: text(sampling.max_completion_tokens),
    tools: (Array.isArray(sampling.tools) ? sampling.tools : []).map((tool) => text(fieldsOf(tool).id)).filter(Boolean),
  };
}

/** What the API is asked. */
export function orderOf(form: RunForm): RunOrder {
  const source = { type: "file_id", id: form.fileId };
  const name = form.name.trim() ? { name: form.name.trim() } : {};
  if (!form.isSampled) return { ...name, data_source: { type: "jsonl", source } };
  const system = form.system.trim() ? [{ role: "developer", content: form.system }] : [];
  return {
    ...name,
    samples_per_row: form.samples.trim() ? number(form.samples) : 1,
    data_source: {
      type: "completions",
      model: form.model.trim(),
      source,
      input_messages: { type: "template", template: [...system, { role: "user", content: form.prompt }] },
      sampling_params: {
        ...(form.temperature.trim() && { temperature: number(form.temperature) }),
        ...(form.maxTokens.trim() && { max_completion_tokens: number(form.maxTokens) }),
        ...(form.tools.length > 0 && { tools: form.tools.map((id) => ({ id })) }),
      },
    },
  };
}

export const SOURCE = "data_source";
export const SAMPLING = `${SOURCE}.sampling_params`;
const MESSAGES = `${SOURCE}.input_messages.template`;

/** Where the API finds the two messages of `orderOf`: instructions come first, where there are any. */
export function messagePaths(form: RunForm): { system: string; prompt: string } {
  const isInstructed = form.system.trim() !== "";
  return {
    system: isInstructed ? `${MESSAGES}[0]` : `${MESSAGES}.none`,
    prompt: `${MESSAGES}[${isInstructed ? 1 : 0}]`,
  };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
}
