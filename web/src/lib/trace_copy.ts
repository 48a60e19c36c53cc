/** A trace in the words of other programs. */
import type { Message } from "../api/types";

export interface SdkMessage {
  role: Message["role"];
  content: string | null;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}

/** The conversation as a chat completion takes it. */
export function sdkMessages(messages: readonly Message[]): SdkMessage[] {
  return messages.map((message) => {
    const calls = message.tool_calls ?? [];
    return {
      role: message.role,
      content: calls.length > 0 && message.content === "" ? null : message.content,
      ...(calls.length > 0 && {
        tool_calls: calls.map((call) => ({
          id: call.call_id,
          type: "function" as const,
          function: { name: call.name, arguments: call.arguments },
        })),
      }),
      ...(message.tool_call_id && { tool_call_id: message.tool_call_id }),
    };
  });
}

export interface MadeCall {
  url: string;
  /** Names of the headers; their values stay with the platform. */
  headers: readonly string[];
  callId: string;
  name: string;
  arguments: string;
  traceId: string;
  /** The dataset row; undefined where it is not known. */
  item: unknown;
}

/** A shell command that makes the call again, as the platform did but for secrets. */
export function curl(call: MadeCall): string {
  const body = {
    type: "function_call",
    id: call.callId,
    call_id: call.callId,
    name: call.name,
    arguments: call.arguments,
    trace_id: call.traceId,
    item: call.item ?? {},
  };
  const headers = ["Content-Type: application/json", ...call.headers.map((name) => `${name}: <your value>`)];
  return [
    `curl -X POST ${quoted(call.url)}`,
    ...headers.map((header) => `  -H ${quoted(header)}`),
    `  --data-raw ${quoted(JSON.stringify(body))}`,
  ].join(" \\\n");
}

/** For a POSIX shell: nothing in it means anything. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
