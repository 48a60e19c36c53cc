import { Link } from "wouter";
import type { EndedRollout } from "../../api/types";
import { type Block, excerpt, isToolError, type Turn } from "../../lib/conversation";
import { delta, reward } from "../../lib/format";
import { prettyJson } from "../../lib/json_text";
import { endWords } from "../../lib/outcome";
import { firstBlocks } from "../../lib/trace_search";

interface Props {
  /** What it is called here. */
  name: string;
  rollout: EndedRollout;
  href: string;
  /** Null where it carries no gradient; absent where nothing is said of it. */
  advantage: number | null | undefined;
  turns: readonly Turn[];
  /** Number of the turn in which the group parts. */
  partsAt: number | null;
  /** Which way it goes from there. */
  way: string | null;
}

const MOST_BLOCKS = 60;

/** One rollout of a group, its turns as far as they tell it from the others. */
export function GroupColumn({ name, rollout, href, advantage, turns, partsAt, way }: Props) {
  const told = firstBlocks(turns.filter((turn) => turn.number > 0), MOST_BLOCKS); // prettier-ignore
  return (
    <article className="panel group-column" aria-label={`Rollout ${name}`}>
      <header>
        <Link href={href}>{name}</Link>
        {way !== null && <span className="badge">way {way}</span>}
        <span className="spacer" />
        <strong>{rollout.reward === null ? "excluded" : reward(rollout.reward)}</strong>
        {advantage !== undefined && (
          <span className={`${toneOf(advantage)} small`}>
            {advantage === null ? "no advantage" : `advantage ${delta(advantage, 2)}`}
          </span>
        )}
      </header>
      <ol>
        {told.map((turn) => (
          <li key={turn.number} className={turn.number === partsAt ? "parts-here" : undefined}>
            <h3 className="muted small">
              Turn {turn.number}
              {turn.number === partsAt && ": here they part"}
            </h3>
            {turn.blocks.map((block, i) => (
              <Short key={i} block={block} />
            ))}
          </li>
        ))}
        <li className={rollout.failure_code === null ? "muted" : "bad"}>{endWords(rollout)}</li>
      </ol>
    </article>
  );
}

function toneOf(advantage: number | null): string {
  if (advantage === null || advantage === 0) return "muted";
  return advantage > 0 ? "good" : "bad";
}

function Short({ block }: { block: Block }) {
  if (block.kind !== "call") {
    return <p className={block.kind === "thought" ? "said muted" : "said"}>{excerpt(block.text, 4, 240).head}</p>;
  }
  return (
    <div className="short-call mono">
      <p>
        <strong>{block.name}</strong> {excerpt(block.arguments, 3, 160).head}
      </p>
      {block.output !== null && (
        <p className={isToolError(block.output) ? "bad" : "muted"}>{excerpt(prettyJson(block.output), 3, 160).head}</p>
      )}
    </div>
  );
}
