import { useState } from "react";
import { RefusedAction } from "../../components/RefusedAction";
import { Empty, Problem, Skeleton } from "../../components/State";
import { useRehearsalActions, useRehearsals } from "../../data/endpoints";
import { isPlayed, rehearsalLine, rehearsalMark } from "../../lib/endpoints";
import { count, dateTime } from "../../lib/format";
import { NewRehearsal } from "./NewRehearsal";

/** Bursts of a step that were played without a model. */
export function Rehearsals() {
  const rehearsals = useRehearsals();
  const { cancel } = useRehearsalActions();
  const [isStarting, setStarting] = useState(false);
  return (
    <section className="panel" aria-labelledby="rehearsals">
      <header>
        <h2 id="rehearsals">Rehearsals</h2>
        <span className="muted small">The burst of one step, played at tools and grader without a model.</span>
        <span className="spacer" />
        <button type="button" aria-expanded={isStarting} onClick={() => setStarting(!isStarting)}>
          Rehearse
        </button>
      </header>
      {isStarting && <NewRehearsal onClose={() => setStarting(false)} />}
      <RefusedAction error={cancel.error} onClose={cancel.reset} />
      {rehearsals.error && <Problem error={rehearsals.error} onRetry={() => void rehearsals.refetch()} />}
      {rehearsals.isPending && <Skeleton height={80} />}
      {rehearsals.data?.length === 0 && !isStarting && <Empty title="No rehearsals yet" />}
      <ul className="rehearsals">
        {rehearsals.data?.map((rehearsal) => {
          const mark = rehearsalMark(rehearsal);
          return (
            <li key={rehearsal.id}>
              <span className={`badge ${mark.tone}`}>{mark.label}</span>
              <span className="nowrap">{count(rehearsal.plan.rollouts)} rollouts</span>
              <span className="rehearsal-line muted">{rehearsalLine(rehearsal)}</span>
              <span className="muted nowrap">{dateTime(rehearsal.created_at)}</span>
              {isPlayed(rehearsal) && (
                <button
                  type="button"
                  disabled={rehearsal.is_cancel_requested}
                  onClick={() => cancel.mutate(rehearsal.id)}
                >
                  Cancel
                </button>
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
