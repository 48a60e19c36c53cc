import type { ReactNode } from "react";
import type { RolloutQuery, StopReason } from "../../api/types";
import { changed } from "../../lib/filters";
import { humanize } from "../../lib/format";
import { Typed } from "./Typed";

export interface FilterProps {
  query: RolloutQuery;
  /** Names of the job's tools. */
  tools: readonly string[];
  onChange(query: RolloutQuery): void;
}

/** All of them: the compiler asks for what the API adds. */
const ENDS = Object.keys({
  completed: true,
  tool_calls: true,
  max_turns: true,
  max_tool_calls: true,
  max_tokens: true,
  context_full: true,
} satisfies Record<StopReason, true>);
const FAULTS = ["endpoint", "platform"];
const FAILURES = [
  "timeout",
  "server_error",
  "rate_limited",
  "connect_error",
  "connection_reset",
  "tls_error",
  "unexpected_status",
  "unauthorized",
  "endpoint_not_found",
  "rejected",
  "invalid_reply",
  "invalid_score",
  "grader_error",
  "invalid_variable",
  "oversize_reply",
  "oversize_request",
  "blocked_address",
  "deadline_exceeded",
  "sampler_error",
  "platform_deadline",
  "internal_error",
];

/** What is asked less often. */
export function MoreFilters({ query, tools, onChange }: FilterProps) {
  const set = (name: keyof RolloutQuery, text: string) => onChange(changed(query, name, text));
  const range = (label: string, from: keyof RolloutQuery, to: keyof RolloutQuery) => (
    <Line label={label}>
      <Typed label="from" size={6} value={query[from] ?? ""} onCommit={(text) => set(from, text)} />
      <Typed label="to" size={6} value={query[to] ?? ""} onCommit={(text) => set(to, text)} />
    </Line>
  );
  const choice = (label: string, name: keyof RolloutQuery, values: readonly string[]) => (
    <Line label={label}>
      <select aria-label={label} value={String(query[name] ?? "")} onChange={(event) => set(name, event.target.value)}>
        <option value="">any</option>
        {values.map((value) => (
          <option key={value} value={value}>
            {name === "tool" ? value : humanize(value)}
          </option>
        ))}
      </select>
    </Line>
  );
  const isOneStep = query.step !== undefined || (query.from_step !== undefined && query.from_step === query.to_step);
  return (
    <div id="more-filters" popover="auto" className="more-filters" role="group" aria-label="More filters">
      {range("Steps", "from_step", "to_step")}
      {range("Reward", "min_reward", "max_reward")}
      {range("Tokens", "min_tokens", "max_tokens")}
      {range("Seconds", "min_duration_s", "max_duration_s")}
      {choice("Tool called", "tool", tools)}
      {choice("Ended", "stop_reason", ENDS)}
      {choice("Failure", "failure_code", FAILURES)}
      {choice("Fault of", "fault", FAULTS)}
      <Line label="Text">
        <Typed
          label="Text within prompt or answer"
          isLabelHidden
          placeholder="anywhere in prompt or answer"
          value={query.contains ?? ""}
          onCommit={(text) => set("contains", text)}
        />
      </Line>
      {!isOneStep && <p className="muted small">Text within words is looked for in one step: say which first.</p>}
    </div>
  );
}

function Line({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="filter-line">
      <span className="muted">{label}</span>
      <span className="filter">{children}</span>
    </div>
  );
}
