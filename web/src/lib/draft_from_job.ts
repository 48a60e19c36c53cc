/** An order like that of an earlier job. */
import type { Job } from "../api/types";
import {
  type Draft,
  type GraderDraft,
  type HeaderDraft,
  isObject,
  type Json,
  type JsonObject,
  type LeafDraft,
  NEW_DRAFT,
  newLeaf,
  type PartDraft,
  type ToolDraft,
} from "./draft";
import { LEAF_FORMS, LEAF_TYPES, type LeafType } from "./grader_forms";

/** Everything that was ordered, but for the seed and for secrets: those are shown to nobody. */
export function draftOf(job: Job): Draft {
  const { grader, tools, hyperparameters, max_episode_steps, ...more } = object(object(job.method).reinforcement);
  const rest = withoutNull(more);
  return {
    ...NEW_DRAFT,
    model: job.model,
    training_file: job.training_file,
    validation_file: job.validation_file ?? "",
    test_file: job.test_file ?? "",
    suffix: job.user_provided_suffix ?? "",
    tools: (Array.isArray(tools) ? tools : []).map((tool) => toolDraft(object(tool))),
    grader: graderDraft(object(grader), job),
    hyperparameters: chosen(object(hyperparameters)),
    max_episode_steps: text(max_episode_steps),
    more: Object.keys(rest).length ? JSON.stringify(rest, null, 2) : "",
    top: job.metadata ? { metadata: job.metadata } : {},
  };
}

function toolDraft(tool: JsonObject): ToolDraft {
  const { id, name, server_url, headers, description, parameters, ...more } = tool;
  const registered = text(id).startsWith("tool_") ? text(id) : "";
  return {
    registered,
    name: text(name),
    server_url: text(server_url),
    headers: headerDrafts(headers),
    description: text(description),
    parameters: parameters ? JSON.stringify(parameters, null, 2) : "",
    more: withoutNull(more),
  };
}

function graderDraft(grader: JsonObject, job: Job): GraderDraft {
  const { id, type, graders, calculate_output, ...more } = grader;
  if (text(id).startsWith("grader_")) return { ...NEW_DRAFT.grader, kind: "registered", registered: text(id) };
  if (type === "multi") {
    const parts = Object.entries(object(graders)).map(([name, part]): PartDraft => ({
      name,
      leaf: leafDraft(object(part)),
    }));
    return { ...NEW_DRAFT.grader, kind: "multi", parts, formula: text(calculate_output), more: named(more, job) };
  }
  const leaf = leafDraft(grader);
  return { ...NEW_DRAFT.grader, kind: leaf.type, leaf: { ...leaf, more: named(leaf.more, job) } };
}

function leafDraft(grader: JsonObject): LeafDraft {
  const type = LEAF_TYPES.find((one) => one === grader.type) ?? "string_check";
  const { headers, type: _, ...rest } = grader;
  const values: Record<string, string> = {};
  const more = withoutNull(rest);
  for (const { name, input } of LEAF_FORMS[type].fields) {
    const value = rest[name];
    delete more[name];
    values[name] = Array.isArray(value) ? value.join(input === "lines" ? "\n" : ", ") : text(value);
  }
  const messages = readMessages(type, rest.input);
  if (messages.length) delete more.input;
  return { ...newLeaf(type), values, messages, headers: headerDrafts(headers), more };
}

/** Messages whose contents are plain texts; others stay as they are among the fields without inputs. */
function readMessages(type: LeafType, input: Json | undefined): LeafDraft["messages"] {
  if (!LEAF_FORMS[type].hasMessages || !Array.isArray(input)) return [];
  const messages = input.map((message) => ({ role: text(object(message).role), content: object(message).content }));
  return messages.every((message): message is LeafDraft["messages"][number] => typeof message.content === "string")
    ? messages
    : [];
}

/** Values come redacted: they have to be typed again. */
function headerDrafts(headers: Json | undefined): HeaderDraft[] {
  return Object.keys(object(headers)).map((name) => ({ name, value: "" }));
}

/** Without a name that the platform invented for this one job. */
function named(more: JsonObject, job: Job): JsonObject {
  const { name, ...others } = more;
  return name === `grader-${job.id.slice(-4)}` ? others : more;
}

/** What an order means that does not name these; `auto` by all others. */
const WHERE_ABSENT: Readonly<Record<string, Json>> = {
  max_staleness: 0,
  policy_pin: "rollout",
  reasoning_effort: "default",
};

function chosen(hyperparameters: JsonObject): Record<string, string> {
  const own = Object.entries(hyperparameters).filter(
    ([name, value]) => value !== null && value !== (WHERE_ABSENT[name] ?? "auto"),
  );
  return Object.fromEntries(own.map(([name, value]) => [name, text(value)]));
}

function withoutNull(values: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
}

function object(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}
