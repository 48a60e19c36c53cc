/** A trace as blocks to read: what was asked, what the policy said, each call beside its output. */
import type { Message, RolloutRecord, ToolCall } from "../api/types";

export interface CallBlock {
  kind: "call";
  id: string;
  name: string;
  arguments: string;
  /** What the model read; null when the rollout broke off before there was an answer. */
  output: string | null;
  /** 1 for the first call of the rollout. */
  number: number;
}

export interface TextBlock {
  kind: "text";
  role: Message["role"];
  text: string;
  /** Part of the dataset row rather than of the rollout. */
  isPrompt: boolean;
}

export interface ThoughtBlock {
  kind: "thought";
  text: string;
}

export type Block = TextBlock | ThoughtBlock | CallBlock;

export interface Turn {
  /** 0 for the prompt. */
  number: number;
  blocks: Block[];
}

/** The prompt as turn 0, then one turn for each time the policy spoke. */
export function toTurns(record: Pick<RolloutRecord, "messages" | "turns">): Turn[] {
  const { messages } = record;
  const { outputs, answers } = answersOf(messages);
  const first = firstOfRollout(messages, record.turns);
  let blocks: Block[] = [];
  const turns: Turn[] = [{ number: 0, blocks }];
  let calls = 0;
  for (const [i, message] of messages.entries()) {
    const isPrompt = i < first;
    if (answers.has(message)) continue;
    if (!isPrompt && message.role === "assistant") {
      blocks = [];
      turns.push({ number: turns.length, blocks });
    }
    addText(blocks, message, isPrompt);
    for (const call of message.tool_calls ?? []) blocks.push(toCall(call, outputs.get(call), (calls += 1)));
  }
  return turns.filter((turn) => turn.blocks.length > 0);
}

/**
 * What tools answered, by call, and the messages that are such answers. Messages of a dataset's row may use the ids of
 * earlier ones again: an answer is of the latest message with calls of its id, of the first that has none yet.
 */
function answersOf(messages: readonly Message[]): { outputs: Map<ToolCall, string>; answers: Set<Message> } {
  const [outputs, answers] = [new Map<ToolCall, string>(), new Set<Message>()];
  const unanswered = new Map<string, ToolCall[]>();
  for (const message of messages) {
    const calls = message.tool_calls ?? [];
    for (const call of calls) unanswered.set(call.call_id, []);
    for (const call of calls) unanswered.get(call.call_id)?.push(call);
    const answered = message.role === "tool" ? unanswered.get(message.tool_call_id ?? "")?.shift() : undefined;
    if (answered === undefined) continue;
    outputs.set(answered, message.content);
    answers.add(message);
  }
  return { outputs, answers };
}

/** Whether the policy made it. Calls of the prompt are the row's own text, which nobody sent to a tool. */
export function isSampled(turn: Pick<Turn, "number">): boolean {
  return turn.number > 0;
}

/** The ids of all calls the policy made. */
export function callIds(turns: readonly Turn[]): Set<string> {
  const sampled = turns.filter(isSampled);
  return new Set(sampled.flatMap((turn) => turn.blocks.flatMap((block) => (block.kind === "call" ? [block.id] : []))));
}

/** Splits `<think>...</think>` off: `[thought, answer]`. An unfinished thought runs to the end. */
export function splitThought(text: string): [string, string] {
  const match = /^\s*<think>([\s\S]*?)(?:<\/think>|$)/.exec(text);
  if (!match) return ["", text.trim()];
  return [(match[1] ?? "").trim(), text.slice(match[0].length).trim()];
}

/** Whether the model read an error: those begin this way, the platform's own and those of well-behaved tools. */
export function isToolError(output: string | null): boolean {
  return output !== null && /^\s*error:/i.test(output);
}

export interface Excerpt {
  head: string;
  /** Lines that are folded away; 0 when everything is in the head. */
  hiddenLines: number;
}

/** The first lines of a long text, cut by lines and by characters. */
export function excerpt(text: string, maxLines = 16, maxChars = 1600): Excerpt {
  const lines = text.split("\n");
  if (lines.length <= maxLines + 4 && text.length <= maxChars + 200) return { head: text, hiddenLines: 0 };
  const head = lines.slice(0, maxLines).join("\n").slice(0, maxChars);
  return { head, hiddenLines: Math.max(1, lines.length - head.split("\n").length) };
}

function toCall(call: ToolCall, output: string | undefined, number: number): CallBlock {
  return {
    kind: "call",
    id: call.call_id,
    name: call.name,
    arguments: call.arguments,
    output: output ?? null,
    number,
  };
}

function addText(blocks: Block[], message: Message, isPrompt: boolean): void {
  if (message.role !== "assistant" || isPrompt) {
    if (message.content) blocks.push({ kind: "text", role: message.role, text: message.content, isPrompt });
    return;
  }
  const [written, answer] = message.content === "" ? ["", ""] : splitThought(message.content);
  const thought = message.reasoning_content || written;
  if (thought) blocks.push({ kind: "thought", text: thought });
  if (answer) blocks.push({ kind: "text", role: "assistant", text: answer, isPrompt });
}

/** Rows may hold assistant messages of their own: the rollout's are the last `turns` of them. */
function firstOfRollout(messages: readonly Message[], turns: number): number {
  const spoken = messages.flatMap((message, i) => (message.role === "assistant" ? [i] : []));
  return turns === 0 ? messages.length : (spoken.at(-turns) ?? spoken[0] ?? messages.length);
}
