import { useContext } from "react";
import type { GraderReply, RegisteredGrader } from "../../api/types";
import { useGraderRun } from "../../data/new_job";
import type { Draft, GraderDraft } from "../../lib/draft";
import { toGrader } from "../../lib/draft_order";
import { milliseconds, reward } from "../../lib/format";
import { LEAF_TYPES } from "../../lib/grader_forms";
import { DryRun, withoutSecrets } from "./DryRun";
import { REINFORCEMENT } from "../../components/order/fields";
import { GraderForm } from "../../components/order/GraderForm";
import { PreviewedRowContext } from "../../components/order/previewed_row";

interface Props {
  grader: GraderDraft;
  registered: readonly RegisteredGrader[];
  onChange(change: Partial<Draft>): void;
}

/** Who judges what the model answers. */
export function GraderSection({ grader, registered, onChange }: Props) {
  return (
    <section className="panel" aria-labelledby="new-grader">
      <header>
        <h2 id="new-grader">Grader</h2>
        <span className="muted small">Its score is the reward that is learned from</span>
      </header>
      <div className="form">
        <GraderForm
          grader={grader}
          path={`${REINFORCEMENT}.grader`}
          types={LEAF_TYPES}
          registered={registered}
          onChange={(next) => onChange({ grader: next })}
        />
        <GraderDryRun grader={grader} />
      </div>
    </section>
  );
}

/** One answer, graded as in a job. */
function GraderDryRun({ grader }: { grader: GraderDraft }) {
  const row = useContext(PreviewedRowContext);
  const run = useGraderRun();
  const whole = toGrader(grader);
  return (
    <DryRun
      label="Grade this answer"
      isBusy={run.isPending}
      canRun
      request={
        run.variables
          ? (withoutSecrets({
              grader: run.variables.grader,
              model_sample: run.variables.answer,
              item: run.variables.item,
            }) as object)
          : null
      }
      reply={run.data}
      error={run.error}
      verdict={run.data && <Verdict reply={run.data} />}
      onRun={() => run.mutate({ grader: whole, answer: row?.answer ?? "", item: row?.item ?? {} })}
    >
      <label className="dry-run-input">
        <span>An answer to the previewed row</span>
        <textarea
          rows={2}
          placeholder="What the model might answer"
          value={row?.answer ?? ""}
          onChange={(event) => row?.onAnswer(event.target.value)}
        />
      </label>
    </DryRun>
  );
}

function Verdict({ reply }: { reply: GraderReply }) {
  if (reply.failure) return <span className="bad">No grade: {reply.failure.message}</span>;
  return (
    <span>
      Reward <strong>{reward(reply.reward)}</strong>{" "}
      <span className="muted">within {milliseconds(reply.metadata.execution_time)}</span>
      {reply.error_details && <span className="bad"> {reply.error_details.split("\n").at(-1)}</span>}
    </span>
  );
}
