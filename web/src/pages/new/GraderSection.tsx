import { useContext } from "react";
import type { GraderReply, RegisteredGrader } from "../../api/types";
import { useGraderRun } from "../../data/new_job";
import { type Draft, type GraderDraft, newLeaf } from "../../lib/draft";
import { toGrader } from "../../lib/draft_order";
import { milliseconds, reward } from "../../lib/format";
import { type GraderKind, LEAF_FORMS, LEAF_TYPES } from "../../lib/grader_forms";
import { DryRun, withoutSecrets } from "./DryRun";
import { ChoiceField, PartProblem, REINFORCEMENT } from "./fields";
import { GraderParts } from "./GraderParts";
import { LeafForm } from "./LeafForm";
import { PreviewedRowContext } from "./previewed_row";

interface Props {
  grader: GraderDraft;
  registered: readonly RegisteredGrader[];
  onChange(change: Partial<Draft>): void;
}

const PATH = `${REINFORCEMENT}.grader`;

/** Who judges what the model answers. */
export function GraderSection({ grader, registered, onChange }: Props) {
  const change = (next: Partial<GraderDraft>) => onChange({ grader: { ...grader, ...next } });
  const kinds: { value: GraderKind; label: string }[] = [
    ...LEAF_TYPES.map((type) => ({ value: type, label: LEAF_FORMS[type].label })),
    { value: "multi", label: "Several, by a formula" },
  ];
  const first = registered[0];
  if (first) kinds.push({ value: "registered", label: "A registered one" });
  const choose = (kind: GraderKind) => {
    if (kind === "registered") change({ kind, registered: first?.id ?? "" });
    else if (kind === "multi") change({ kind });
    else change({ kind, leaf: grader.leaf.type === kind ? grader.leaf : newLeaf(kind) });
  };
  return (
    <section className="panel" aria-labelledby="new-grader">
      <header>
        <h2 id="new-grader">Grader</h2>
        <span className="muted small">Its score is the reward that is learned from</span>
      </header>
      <div className="form">
        <ChoiceField
          label="Kind"
          path={`${PATH}.type`}
          hint={grader.kind in LEAF_FORMS ? LEAF_FORMS[grader.leaf.type].about : undefined}
          value={grader.kind}
          options={kinds}
          onChange={(kind) => choose(kind as GraderKind)}
        />
        {grader.kind === "registered" && (
          <ChoiceField
            label="Registered grader"
            path={`${PATH}.id`}
            value={grader.registered}
            options={registered.map((one) => ({ value: one.id, label: `${one.name} (${one.type})` }))}
            onChange={(id) => change({ registered: id })}
          />
        )}
        <div className="wide">
          <PartProblem path={PATH} />
        </div>
        {grader.kind === "multi" ? (
          <GraderParts grader={grader} path={PATH} onChange={change} />
        ) : (
          grader.kind !== "registered" && (
            <LeafForm
              leaf={grader.leaf}
              path={PATH}
              onChange={(leaf) => change({ leaf: { ...grader.leaf, ...leaf } })}
            />
          )
        )}
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
