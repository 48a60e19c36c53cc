import { type FormEvent, useCallback, useState } from "react";
import { useLocation } from "wouter";
import { Refusal } from "../../components/Refusal";
import { Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { useCreateEval } from "../../data/evals";
import { forgetOutcome } from "../../data/once";
import { useGraders } from "../../data/registry";
import { type EvalDraft, NEW_EVAL, toEvalOrder } from "../../lib/eval_draft";
import { PART_TYPES } from "../../lib/grader_forms";
import { Inputs, PartProblem, ProblemContext, problemOf, TextField } from "../../components/order/fields";
import { GraderForm } from "../../components/order/GraderForm";
import { ItemsSection } from "./ItemsSection";
import "../../components/order/order.css";

const CRITERION = "testing_criteria[0]";

/** An eval, defined here: what its items hold, and who judges the answers. */
export function NewEvalPage() {
  const [, navigate] = useLocation();
  const [draft, setDraft] = useState(NEW_EVAL);
  const graders = useGraders();
  const create = useCreateEval();
  const onChange = (change: Partial<EvalDraft>) => {
    forgetOutcome(create);
    setDraft((before) => ({ ...before, ...change }));
  };
  const onSchema = useCallback((itemSchema: string) => setDraft((before) => ({ ...before, itemSchema })), []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate(toEvalOrder(draft), { onSuccess: (made) => navigate(`/evals/${made.id}`) });
  };
  return (
    <ProblemContext value={problemOf(create.error, true)}>
      <title>New eval · Agent RFT</title>
      <Trail parts={[{ label: "Evals", href: "/evals" }, { label: "New eval" }]} />
      <h1>New eval</h1>
      {graders.error && <Problem error={graders.error} onRetry={() => void graders.refetch()} />}
      {graders.isPending && <Skeleton height={420} />}
      {!graders.isPending && (
        <form className="order-form" aria-label="New eval" onSubmit={submit}>
          <div className="stack">
            <Inputs isUnderWay={create.isPending}>
              <ItemsSection draft={draft} onChange={onChange} onSchema={onSchema} />
              <section className="panel" aria-labelledby="new-eval-criterion">
                <header>
                  <h2 id="new-eval-criterion">Criterion</h2>
                  <span className="muted small">An answer passes when its score reaches the threshold</span>
                </header>
                <div className="form">
                  <GraderForm
                    grader={draft.grader}
                    path={CRITERION}
                    types={PART_TYPES}
                    registered={graders.data ?? []}
                    onChange={(grader) => onChange({ grader })}
                  />
                  {draft.grader.kind !== "registered" && (
                    <>
                      <TextField
                        label="Name of the criterion"
                        path={`${CRITERION}.name`}
                        value={draft.criterionName}
                        onChange={(criterionName) => onChange({ criterionName })}
                      />
                      <TextField
                        label="Passes from"
                        path={`${CRITERION}.pass_threshold`}
                        hint="The lowest score that passes; a text similarity needs one."
                        value={draft.threshold}
                        onChange={(threshold) => onChange({ threshold })}
                      />
                    </>
                  )}
                  <div className="wide">
                    <PartProblem path="testing_criteria" />
                  </div>
                </div>
              </section>
            </Inputs>
            {create.error && <Refusal error={create.error} />}
            <div className="actions">
              <button type="submit" className="primary" disabled={create.isPending}>
                Create the eval
              </button>
            </div>
          </div>
        </form>
      )}
    </ProblemContext>
  );
}
