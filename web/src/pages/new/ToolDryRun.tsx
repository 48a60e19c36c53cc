import { useContext, useState } from "react";
import type { ToolCallTried } from "../../api/orders";
import type { ToolReply } from "../../api/types";
import { useToolRun } from "../../data/new_job";
import type { ToolDraft } from "../../lib/draft";
import { toTool } from "../../lib/draft_order";
import { milliseconds } from "../../lib/format";
import { describedIn, plainArguments } from "../../lib/tool_arguments";
import { DryRun } from "./DryRun";
import { PreviewedRowContext } from "../../components/order/previewed_row";

/** One call of the tool, as a rollout makes it, with the row that is previewed. */
export function ToolDryRun({ tool, name }: { tool: ToolDraft; name: string }) {
  const row = useContext(PreviewedRowContext)?.item ?? null;
  const item = row ?? {};
  const [typed, setTyped] = useState<string | null>(null);
  const args = typed ?? JSON.stringify(plainArguments(describedIn(row, name)));
  const run = useToolRun();
  const isJson = isJsonObject(args);
  const whole = toTool(tool);
  const tried: ToolCallTried = {
    id: "fc_dryrun",
    call_id: "call_dryrun",
    trace_id: "trace_dryrun",
    arguments: args,
    item,
  };
  return (
    <DryRun
      label="Call it once"
      isBusy={run.isPending}
      canRun={isJson && (tool.registered !== "" || tool.server_url.trim() !== "")}
      request={run.variables ? requestOf(name, run.variables.tried, run.data) : null}
      reply={run.data}
      error={run.error}
      verdict={run.data && <Verdict reply={run.data} />}
      onRun={() => run.mutate({ tool: whole, tried })}
    >
      <label className="dry-run-input">
        <span>Arguments to try</span>
        <input
          className="mono"
          autoComplete="off"
          spellCheck={false}
          value={args}
          aria-invalid={!isJson}
          onChange={(event) => setTyped(event.target.value)}
        />
      </label>
    </DryRun>
  );
}

/** What the tool was sent; for a registered one the platform makes up the ids. */
function requestOf(name: string, tried: ToolCallTried, reply: ToolReply | undefined): object {
  if (!reply || !("trace_id" in reply)) return { type: "function_call", name, ...tried };
  return { type: "function_call", name, trace_id: reply.trace_id, arguments: tried.arguments, item: tried.item };
}

function Verdict({ reply }: { reply: ToolReply }) {
  const isOk = !("is_ok" in reply) || reply.is_ok;
  if (!isOk) return <span className="bad">{reply.failure?.message ?? reply.output}</span>;
  return <span className="good">It answered within {milliseconds(reply.latency_s)}.</span>;
}

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
