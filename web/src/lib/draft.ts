/** An order while it is written: what the inputs hold. */
import { ExactNumber } from "../api/exact_json";
import {
  FIRST_MESSAGES,
  FIRST_VALUES,
  type GraderKind,
  LEAF_FORMS,
  type LeafType,
  type MessageDraft,
} from "./grader_forms";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export interface HeaderDraft {
  name: string;
  /** A secret: it goes into the request and nowhere else. */
  value: string;
}

export interface ToolDraft {
  /** Of a registered tool; empty: everything is typed here. */
  registered: string;
  name: string;
  server_url: string;
  headers: HeaderDraft[];
  description: string;
  /** A JSON Schema as text. */
  parameters: string;
  /** What has no input here. */
  more: JsonObject;
}

export interface LeafDraft {
  type: LeafType;
  values: Record<string, string>;
  messages: MessageDraft[];
  headers: HeaderDraft[];
  more: JsonObject;
}

export interface PartDraft {
  name: string;
  leaf: LeafDraft;
}

export interface GraderDraft {
  kind: GraderKind;
  registered: string;
  leaf: LeafDraft;
  parts: PartDraft[];
  formula: string;
  more: JsonObject;
}

export interface Draft {
  model: string;
  training_file: string;
  validation_file: string;
  test_file: string;
  suffix: string;
  seed: string;
  tools: ToolDraft[];
  grader: GraderDraft;
  /** By name; empty or absent: what the API takes then, `auto` by most. */
  hyperparameters: Record<string, string>;
  max_episode_steps: string;
  /** Further fields of `method.reinforcement`, as JSON. */
  more: string;
  /** Further fields of the order. */
  top: JsonObject;
}

export const NEW_TOOL: ToolDraft = {
  registered: "",
  name: "",
  server_url: "",
  headers: [],
  description: "",
  parameters: "",
  more: {},
};

export function newLeaf(type: LeafType): LeafDraft {
  const messages = LEAF_FORMS[type].hasMessages ? FIRST_MESSAGES.map((message) => ({ ...message })) : [];
  return { type, values: { ...FIRST_VALUES[type] }, messages, headers: [], more: {} };
}

export const NEW_DRAFT: Draft = {
  model: "",
  training_file: "",
  validation_file: "",
  test_file: "",
  suffix: "",
  seed: "",
  tools: [],
  grader: { kind: "string_check", registered: "", leaf: newLeaf("string_check"), parts: [], formula: "", more: {} },
  hyperparameters: {},
  max_episode_steps: "",
  more: "",
  top: {},
};

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);
}

/** The draft without values of headers, which are secrets. */
export function withoutSecrets(draft: Draft): Draft {
  const { grader } = draft;
  return {
    ...draft,
    tools: draft.tools.map((tool) => ({ ...tool, headers: withoutValues(tool.headers) })),
    grader: {
      ...grader,
      leaf: leafWithout(grader.leaf),
      parts: grader.parts.map((part) => ({ ...part, leaf: leafWithout(part.leaf) })),
    },
  };
}

function leafWithout(leaf: LeafDraft): LeafDraft {
  return { ...leaf, headers: withoutValues(leaf.headers) };
}

function withoutValues(headers: readonly HeaderDraft[]): HeaderDraft[] {
  return headers.map(({ name }) => ({ name, value: "" }));
}
