import { useState } from "react";
import type { Attempt } from "../api/types";
import { type CallBlock, excerpt, flatArguments, prettyJson, type TextBlock, type Turn } from "../lib/conversation";
import { plural } from "../lib/format";
import { AttemptList } from "./AttemptList";
import { Preformatted } from "./Preformatted";

interface Props {
  turns: readonly Turn[];
  /** Custom property of each tool's colour. */
  colors: ReadonlyMap<string, string>;
  /** Of each call, by call id. */
  attempts: ReadonlyMap<string, Attempt[]>;
}

const ROLES: Record<TextBlock["role"], string> = {
  developer: "Developer",
  system: "System",
  user: "User",
  assistant: "Assistant",
  tool: "Tool",
};

/** The whole conversation, turn by turn. */
export function TraceTurns({ turns, colors, attempts }: Props) {
  return (
    <ol className="turns">
      {turns.map((turn) => (
        <li key={turn.number} className="turn">
          <h3 className="turn-number">{turn.number === 0 ? "Prompt" : `Turn ${turn.number}`}</h3>
          <div className="blocks">
            {turn.blocks.map((block, i) => {
              if (block.kind === "call") {
                const tries = attempts.get(block.id) ?? [];
                return <Call key={block.id} call={block} color={colors.get(block.name)} attempts={tries} />;
              }
              if (block.kind === "thought") return <Thought key={`thought-${i}`} text={block.text} />;
              return <Text key={`text-${i}`} block={block} />;
            })}
          </div>
        </li>
      ))}
    </ol>
  );
}

function Text({ block }: { block: TextBlock }) {
  return (
    <article className={`message ${block.role}`}>
      <span className="role">{ROLES[block.role]}</span>
      <Folded text={block.text} className="prose" />
    </article>
  );
}

function Thought({ text }: { text: string }) {
  return (
    <details className="thought">
      <summary>Thought</summary>
      <p className="prose">{text}</p>
    </details>
  );
}

interface CallProps {
  call: CallBlock;
  color: string | undefined;
  attempts: readonly Attempt[];
}

function Call({ call, color, attempts }: CallProps) {
  return (
    <article
      className={`call ${call.isError ? "is-error" : ""}`}
      style={{ borderLeftColor: `var(${color ?? "--c-quiet"})` }}
    >
      <header>
        <span className="swatch" style={{ background: `var(${color ?? "--c-quiet"})` }} />
        <strong className="mono">{call.name}</strong>
        <span className="muted small">call {call.number}</span>
        {call.isError && <span className="badge bad">error shown to the model</span>}
      </header>
      <Arguments text={call.arguments} />
      {attempts.length > 0 && <AttemptList attempts={attempts} />}
      {call.output === null ? (
        <p className="no-output">No answer: the rollout broke off here.</p>
      ) : (
        <div className="output">
          <span className="label">Output</span>
          <Folded text={prettyJson(call.output)} className="mono" />
        </div>
      )}
    </article>
  );
}

function Arguments({ text }: { text: string }) {
  const flat = flatArguments(text);
  if (flat === null) {
    return (
      <Preformatted label="Arguments" className="arguments">
        {prettyJson(text)}
      </Preformatted>
    );
  }
  if (flat.length === 0) return <p className="arguments muted small">no arguments</p>;
  return (
    <dl className="arguments mono">
      {flat.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Long texts show their beginning first. */
function Folded({ text, className }: { text: string; className: string }) {
  const [isOpen, setOpen] = useState(false);
  const { head, hiddenLines } = excerpt(text);
  return (
    <div className="folded">
      <Preformatted label="Text" className={className}>
        {isOpen ? text : head}
      </Preformatted>
      {hiddenLines > 0 && (
        <button type="button" className="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Show less" : `Show ${plural(hiddenLines, "more line")}`}
        </button>
      )}
    </div>
  );
}
