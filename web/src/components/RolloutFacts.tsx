import type { EndedRollout } from "../api/types";
import { count, duration } from "../lib/format";
import { timeParts } from "../lib/outcome";
import { Fact } from "./Fact";

interface Props {
  rollout: EndedRollout;
  colors: ReadonlyMap<string, string>;
}

/** What the rollout used up: calls, tokens, time. */
export function RolloutFacts({ rollout, colors }: Props) {
  const { record } = rollout;
  const calls = Object.entries(record.tool_calls);
  const parts = timeParts(record);
  return (
    <section className="panel" aria-label="Figures">
      <header>
        <h2>Figures</h2>
      </header>
      <div className="card">
        <dl className="facts">
          <Fact label="Turns">{record.turns}</Fact>
          <Fact label="Tokens sampled">{count(record.completion_tokens)}</Fact>
          {record.reasoning_tokens > 0 && <Fact label="Of these, thoughts">{count(record.reasoning_tokens)}</Fact>}
          <Fact label="Policy version">{record.policy_version}</Fact>
          <Fact label="Attempt">{rollout.attempt + 1}</Fact>
          {calls.map(([name, calledTimes]) => (
            <Fact
              key={name}
              label={
                <>
                  <span className="swatch" style={{ background: `var(${colors.get(name) ?? "--c-quiet"})` }} />{" "}
                  <span className="mono">{name}</span>
                </>
              }
            >
              {calledTimes}
              {record.tool_errors[name] ? <span className="bad"> ({record.tool_errors[name]} failed)</span> : null}
            </Fact>
          ))}
        </dl>
        <div>
          <div className="time-bar" aria-hidden="true">
            {parts.map((part) => (
              <span key={part.key} style={{ flexGrow: part.seconds, background: `var(--c-part-${part.key})` }} />
            ))}
          </div>
          <dl className="facts">
            <Fact label="Duration">{duration(record.duration_s)}</Fact>
            {parts.map((part) => (
              <Fact
                key={part.key}
                label={
                  <>
                    <span className="swatch" style={{ background: `var(--c-part-${part.key})` }} /> {part.label}
                  </>
                }
              >
                {duration(part.seconds)}
              </Fact>
            ))}
          </dl>
        </div>
      </div>
    </section>
  );
}
