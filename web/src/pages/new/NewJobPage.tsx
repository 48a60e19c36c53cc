import { useLocation, useSearch } from "wouter";
import type { Job } from "../../api/types";
import { Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { useModels } from "../../data/models";
import { useDraft } from "../../data/kept_draft";
import { useCreateJob, useEarlierOrder, useEstimate } from "../../data/new_job";
import { forgetOutcome } from "../../data/once";
import { useJob } from "../../data/queries";
import { useGraders, useTools } from "../../data/registry";
import { type Draft, NEW_DRAFT } from "../../lib/draft";
import { draftOf } from "../../lib/draft_from_job";
import { toOrder, unfinished } from "../../lib/draft_order";
import { DataSection } from "./DataSection";
import { EstimatePanel } from "./EstimatePanel";
import { Inputs, ProblemContext, problemOf } from "../../components/order/fields";
import { GraderSection } from "./GraderSection";
import { OrderCode } from "./OrderCode";
import { PreviewedRowContext } from "../../components/order/previewed_row";
import { usePreviewedRow } from "./previewed_row";
import { ToolsSection } from "./ToolsSection";
import { TrainingSection } from "./TrainingSection";
import "../../components/order/order.css";
import "./new.css";

/** A job, ordered here; `?from=JOB` begins with what that job was ordered with. */
export function NewJobPage() {
  const from = new URLSearchParams(useSearch()).get("from");
  return (
    <>
      <title>New job · Agent RFT</title>
      <Trail parts={[{ label: "Jobs", href: "/" }, { label: "New job" }]} />
      <h1>New job</h1>
      <Begun from={from} />
    </>
  );
}

function Begun({ from }: { from: string | null }) {
  // Once it is made, its draft is gone; else it is here again.
  if (useEarlierOrder()) return <p role="status">A job that you ordered is being created: its endpoints are asked.</p>;
  return from === null ? <OrderForm key="new" first={NEW_DRAFT} /> : <Clone key={from} id={from} />;
}

function Clone({ id }: { id: string }) {
  const job = useJob(id);
  if (job.error) return <Problem error={job.error} onRetry={() => void job.refetch()} />;
  return job.data ? <OrderForm first={draftOf(job.data)} from={job.data} /> : <Skeleton height={420} />;
}

function OrderForm({ first, from }: { first: Draft; from?: Job }) {
  const [, navigate] = useLocation();
  const { draft, change, isLeft, startOver, forget } = useDraft(from?.id ?? null, first);
  const models = useModels();
  const tools = useTools();
  const graders = useGraders();
  const row = usePreviewedRow(draft.training_file);
  const order = toOrder(draft);
  const lacks = unfinished(draft);
  const { estimate, standing, error, refetch } = useEstimate(draft.model && draft.training_file ? order : null);
  const create = useCreateJob(forget);
  const onChange = (part: Partial<Draft>) => {
    forgetOutcome(create);
    change(part);
  };
  const problem = problemOf(create.error, true) ?? problemOf(error, false);
  const failed = [models, tools, graders].filter((one) => one.error);
  const [unread] = failed.flatMap((one) => one.error ?? []);
  if (models.isPending || tools.isPending || graders.isPending) return <Skeleton height={420} />;
  return (
    <ProblemContext value={problem}>
      <PreviewedRowContext value={row}>
        {unread && <Problem error={unread} onRetry={() => failed.forEach((one) => void one.refetch())} />}
        {from && (
          <p className="muted">
            Like {from.user_provided_suffix ?? from.id}; its seed and the values of its headers are not taken over.
          </p>
        )}
        {isLeft && <AsLeft isUnderWay={create.isPending} onStartOver={startOver} />}
        <div className="new-job order-form">
          <div className="stack">
            <Inputs isUnderWay={create.isPending}>
              <DataSection draft={draft} models={models.data ?? []} row={row} onChange={onChange} />
              <ToolsSection draft={draft} registered={tools.data ?? []} onChange={onChange} />
              <GraderSection grader={draft.grader} registered={graders.data ?? []} onChange={onChange} />
              <TrainingSection draft={draft} resolved={estimate?.hyperparameters ?? null} onChange={onChange} />
            </Inputs>
            <OrderCode order={order} />
          </div>
          <EstimatePanel
            estimate={estimate}
            standing={standing}
            unfinished={lacks}
            problem={problem}
            isBusy={create.isPending}
            onAgain={() => void refetch()}
            onCreate={() => create.mutate(order, { onSuccess: (job) => navigate(`/jobs/${job.id}`) })}
          />
        </div>
      </PreviewedRowContext>
    </ProblemContext>
  );
}

function AsLeft({ isUnderWay, onStartOver }: { isUnderWay: boolean; onStartOver(): void }) {
  return (
    <p className="muted actions">
      <span>As you left it; values of headers are not kept.</span>
      <button type="button" disabled={isUnderWay} onClick={onStartOver}>
        Start over
      </button>
    </p>
  );
}
