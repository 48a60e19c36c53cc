import { useState } from "react";
import { Link } from "wouter";
import type { Model } from "../../api/types";
import { Confirmation } from "../../components/Confirmation";
import { RefusedAction } from "../../components/RefusedAction";
import { Empty, Problem, Skeleton } from "../../components/State";
import { useDeleteModel, useModels } from "../../data/models";
import { baseModels, byJob, type ModelsOfJob } from "../../lib/models";
import { plural } from "../../lib/format";
import { BaseModels } from "./BaseModels";
import { ModelRow } from "./ModelRow";
import "../../components/models.css";
import "./models.css";

/** Base models, and what each job made of one. */
export function ModelsPage() {
  const models = useModels();
  const remove = useDeleteModel();
  const [asked, setAsked] = useState<Model | null>(null);
  return (
    <>
      <title>Models · Agent RFT</title>
      <h1>Models</h1>
      {models.error && <Problem error={models.error} onRetry={() => void models.refetch()} />}
      <RefusedAction error={remove.error} onClose={remove.reset} />
      {models.isPending && <Skeleton height={320} />}
      {models.data && (
        <>
          <FineTuned jobs={byJob(models.data)} onDelete={setAsked} />
          <BaseModels models={baseModels(models.data)} />
        </>
      )}
      {asked && (
        <Confirmation
          title="Delete this model?"
          consequence={`${asked.id} and its adapter are gone for good, unless the job offers the same adapter under another name.`}
          label="Yes, delete"
          otherwise="Keep it"
          onConfirm={() => remove.mutate(asked.id)}
          onClose={() => setAsked(null)}
        />
      )}
    </>
  );
}

function FineTuned({ jobs, onDelete }: { jobs: readonly ModelsOfJob[]; onDelete(model: Model): void }) {
  if (jobs.length === 0) {
    return (
      <section className="panel" aria-label="Fine-tuned models">
        <Empty title="No fine-tuned models yet">
          <span>
            A job offers its checkpoints here as soon as it keeps one, and its best as a model when it is over.
          </span>
        </Empty>
      </section>
    );
  }
  return jobs.map((job) => (
    <section key={job.jobId} className="panel" aria-label={`Models of ${job.jobId}`}>
      <header>
        <h2>
          <Link href={`/jobs/${job.jobId}`} className="mono">
            {job.jobId}
          </Link>
        </h2>
        <span className="muted small">
          from <span className="mono">{job.trainedFrom}</span>, {plural(job.models.length, "model")}
        </span>
      </header>
      <ul className="models">
        {job.models.map((model) => (
          <ModelRow key={model.id} model={model} onDelete={() => onDelete(model)} />
        ))}
      </ul>
    </section>
  ));
}
