/** What of an earlier run of an eval has no input in the form of a new one, and is ordered as it was. */
import type { EvalRun } from "../api/types";
import { plural } from "./format";
import { type Fields, fieldsOf, string } from "./json_fields";

export interface Carried {
  /** The first message, where it holds instructions, and the last one, where it is the user's: their texts have inputs. */
  instructions: Fields | null;
  prompt: Fields | null;
  /** Messages between the two, such as examples. */
  between: readonly Fields[];
  /** All of `input_messages`, where it does not end with a prompt: nothing of it has an input. */
  messages: Fields | null;
  sampling: Fields;
  /** Tools that are not registered. */
  tools: readonly Fields[];
  /** Further fields of the data source, its type among them. */
  source: Fields;
  metadata: Record<string, string> | null;
  /** What cannot be ordered again, in words. */
  leftOut: readonly string[];
}

export const NOTHING: Carried = {
  instructions: null,
  prompt: null,
  between: [],
  messages: null,
  sampling: {},
  tools: [],
  source: {},
  metadata: null,
  leftOut: [],
};

/** As the API writes what is shown to nobody. */
const REDACTED = "**********";

export function carriedFrom(run: EvalRun): Carried {
  const { source: items, input_messages, sampling_params, model: _, ...source } = known(run.data_source);
  const { temperature: _t, max_completion_tokens: _m, n: _n, tools, ...sampling } = known(sampling_params);
  const own = list(tools).filter((tool) => !isRegistered(tool));
  const secret = own.filter((tool) => JSON.stringify(tool).includes(REDACTED));
  const isSeedKept = sampling.seed === undefined || Number.isSafeInteger(sampling.seed);
  if (!isSeedKept) delete sampling.seed;
  return {
    ...messagesOf(fieldsOf(input_messages)),
    sampling,
    tools: own.filter((tool) => !secret.includes(tool)),
    source,
    metadata: run.metadata,
    leftOut: [
      ...(fieldsOf(items).type === "file_content" ? ["its items, which came with the order"] : []),
      ...secret.map((tool) => `the tool ${nameOf(tool)}, whose secrets are shown to nobody`),
      ...(isSeedKept ? [] : ["its seed, which has more digits than a browser keeps"]),
    ],
  };
}

function messagesOf(input: Fields): Pick<Carried, "instructions" | "prompt" | "between" | "messages"> {
  const template = input.type === "template" ? list(input.template) : [];
  const [first, last] = [template[0], template.at(-1)];
  const none = { instructions: null, prompt: null, between: [] };
  if (last === undefined || last.role !== "user") return { ...none, messages: input };
  const instructions = first?.role === "developer" || first?.role === "system" ? first : null;
  return { instructions, prompt: last, between: template.slice(instructions ? 1 : 0, -1), messages: null };
}

/** Whether a tool is named by its id rather than described. */
export function isRegistered(tool: Fields): boolean {
  return tool.type === undefined && string(tool.id)?.startsWith("tool_") === true;
}

/** A message's text, as the API reads it: its blocks by lines. */
export function messageText(message: Fields | null): string {
  return message === null ? "" : contentText(message.content);
}

function contentText(content: unknown): string {
  if (Array.isArray(content)) return content.map(contentText).join("\n");
  return string(content) ?? string(fieldsOf(content).text) ?? "";
}

/** The message with this text, as it was where nobody changed it. */
export function written(message: Fields | null, role: string, content: string): Fields {
  if (message === null) return { role, content };
  return messageText(message) === content ? message : { ...message, content };
}

/** What is ordered as it was, each in a few words. */
export function carriedWords({ between, messages, sampling, tools, source, metadata }: Carried): string[] {
  const { type, ...others } = source;
  return [
    ...(messages ? [inputWords(messages)] : []),
    ...(between.length > 0 ? [`${plural(between.length, "message")} before the prompt`] : []),
    ...Object.entries(sampling).map(([name, value]) => `${name} ${shortly(value)}`),
    ...tools.map((tool) => `the tool ${nameOf(tool)}`),
    ...(type === "responses" ? ["asked for as responses"] : []),
    ...Object.keys(others),
    ...(metadata && Object.keys(metadata).length > 0 ? ["metadata"] : []),
  ];
}

function inputWords(messages: Fields): string {
  const reference = string(messages.item_reference);
  return reference === null
    ? plural(list(messages.template).length, "message")
    : `each item's own messages, ${reference}`;
}

/** A value in a word: of an object its type. */
function shortly(value: unknown): string {
  const { type, format } = fieldsOf(value);
  return string(type) ?? string(fieldsOf(format).type) ?? JSON.stringify(value);
}

function nameOf(tool: Fields): string {
  return string(tool.name) ?? string(fieldsOf(tool.function).name) ?? "without a name";
}

function list(value: unknown): Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : [];
}

/** Without what is null, which is as good as absent. */
function known(value: unknown): Fields {
  return Object.fromEntries(Object.entries(fieldsOf(value)).filter(([, entry]) => entry !== null));
}
