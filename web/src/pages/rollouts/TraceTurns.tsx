import { useMemo, useState } from "react";
import { AttemptList } from "../../components/AttemptList";
import type { Attempt } from "../../api/types";
import { type CallBlock, isSampled, isToolError, type TextBlock, type Turn } from "../../lib/conversation";
import { count, plural } from "../../lib/format";
import { drawnArguments, prettyJson } from "../../lib/json_text";
import { blockCount, firstBlocks, searched } from "../../lib/trace_search";
import { CopyText } from "./CopyText";
import { Folded } from "./Folded";

interface Props {
  turns: readonly Turn[];
  /** Custom property of each tool's colour. */
  colors: ReadonlyMap<string, string>;
  /** Of each call of the policy, by call id. */
  attempts: ReadonlyMap<string, Attempt[]>;
  /** A command that makes a call again; null where its URL is not known. */
  curlOf(call: CallBlock): string | null;
}

const ROLES: Record<TextBlock["role"], string> = {
  developer: "Developer",
  system: "System",
  user: "User",
  assistant: "Assistant",
  tool: "Tool",
};
const BLOCKS_AT_FIRST = 150;

/** The whole conversation, turn by turn, or what of it holds a text; of a very long one its beginning first. */
export function TraceTurns({ turns, colors, attempts, curlOf }: Props) {
  const [find, setFind] = useState("");
  const [most, setMost] = useState(BLOCKS_AT_FIRST);
  const found = searched(turns, find);
  const [all, left] = [blockCount(found), blockCount(found) - most];
  return (
    <div className="conversation">
      <search className="trace-search">
        <input
          type="search"
          aria-label="Search in this trace"
          placeholder="Search in messages, arguments and replies"
          value={find}
          onChange={(event) => setFind(event.target.value)}
        />
        <span className="muted small" role="status">
          {find && (all === 0 ? "found nowhere" : `in ${plural(all, "place")}`)}
        </span>
      </search>
      <ol className="turns">
        {firstBlocks(found, most).map((turn) => (
          <li key={turn.number} className="turn">
            <h3 className="turn-number">{turn.number === 0 ? "Prompt" : `Turn ${turn.number}`}</h3>
            <div className="blocks">
              {turn.blocks.map((block, i) => {
                if (block.kind === "call") {
                  // The row's calls may have ids of the policy's.
                  const tries = (isSampled(turn) && attempts.get(block.id)) || [];
                  const color = colors.get(block.name);
                  return <Call key={block.number} {...{ call: block, color, attempts: tries, find, curlOf }} />;
                }
                if (block.kind === "thought") return <Thought key={`thought-${i}`} text={block.text} find={find} />;
                return <Text key={`text-${i}`} block={block} find={find} />;
              })}
            </div>
          </li>
        ))}
      </ol>
      {left > 0 && (
        <button type="button" className="show-more" onClick={() => setMost(most + 2 * BLOCKS_AT_FIRST)}>
          Show more of this trace ({count(left)} left)
        </button>
      )}
    </div>
  );
}

function Text({ block, find }: { block: TextBlock; find: string }) {
  return (
    <article className={`message ${block.role}`}>
      <span className="role">{ROLES[block.role]}</span>
      <Folded text={block.text} className="prose" find={find} />
    </article>
  );
}

function Thought({ text, find }: { text: string; find: string }) {
  return (
    <details className="thought" open={find !== "" || undefined}>
      <summary>Thought</summary>
      <Folded text={text} className="prose" find={find} />
    </details>
  );
}

interface CallProps {
  call: CallBlock;
  color: string | undefined;
  attempts: readonly Attempt[];
  find: string;
  curlOf(call: CallBlock): string | null;
}

function Call({ call, color, attempts, find, curlOf }: CallProps) {
  const [command, isError] = [curlOf(call), isToolError(call.output)];
  // Not with every letter that is searched for.
  const output = useMemo(() => (call.output === null ? null : prettyJson(call.output)), [call.output]);
  return (
    <article
      className={`call ${isError ? "is-error" : ""}`}
      style={{ borderLeftColor: `var(${color ?? "--c-quiet"})` }}
    >
      <header>
        <span className="swatch" style={{ background: `var(${color ?? "--c-quiet"})` }} />
        <strong className="mono">{call.name}</strong>
        <span className="muted small">call {call.number}</span>
        {isError && <span className="badge bad">error shown to the model</span>}
        <span className="spacer" />
        {command !== null && (
          <CopyText textOf={() => command} label={`Copy call ${call.number} as curl`} shown="curl" />
        )}
      </header>
      <Arguments text={call.arguments} find={find} />
      {attempts.length > 0 && <AttemptList attempts={attempts} />}
      {output === null ? (
        <p className="no-output">No answer: the rollout broke off here.</p>
      ) : (
        <div className="output">
          <span className="label">Output</span>
          <Folded text={output} className="mono" find={find} />
        </div>
      )}
    </article>
  );
}

function Arguments({ text, find }: { text: string; find: string }) {
  // Not with every letter that is searched for.
  const shown = useMemo(() => drawnArguments(text), [text]);
  if (typeof shown === "string") {
    return (
      <div className="arguments">
        <Folded text={shown} className="mono" find={find} label="Arguments" />
      </div>
    );
  }
  if (shown.length === 0) return <p className="arguments muted small">no arguments</p>;
  return (
    <dl className="arguments mono">
      {shown.map(([name, value], i) => (
        <div key={i}>
          <dt>{name}</dt>
          <dd>
            <Folded text={value} className="mono" find={find} label={name} />
          </dd>
        </div>
      ))}
    </dl>
  );
}
