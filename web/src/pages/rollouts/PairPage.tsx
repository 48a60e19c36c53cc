import { useSearchParams } from "wouter";
import { Empty } from "../../components/State";
import { Trail } from "../../components/Trail";
import { useJob } from "../../data/queries";
import { useRollout } from "../../data/rollouts";
import { SideBySide } from "./SideBySide";
import "./trace.css";

/** The same row under two policies: `?before=TRACE&after=TRACE`. */
export function PairPage({ jobId }: { jobId: string }) {
  const [search] = useSearchParams();
  const [before, after] = [search.get("before"), search.get("after")];
  const job = useJob(jobId);
  const name = job.data?.user_provided_suffix ?? jobId;
  return (
    <>
      <title>{`Two traces · ${name} · Agent RFT`}</title>
      <Trail
        parts={[
          { label: "Jobs", href: "/" },
          { label: name, href: `/jobs/${jobId}` },
          { label: "Change", href: `/jobs/${jobId}/change` },
          { label: "Two traces" },
        ]}
      />
      {before && after ? (
        <Pair {...{ jobId, before, after }} />
      ) : (
        <>
          <h1>Two traces</h1>
          <Empty title="Two traces are needed">The rows of what the policy does otherwise lead here.</Empty>
        </>
      )}
    </>
  );
}

function Pair({ jobId, before, after }: { jobId: string; before: string; after: string }) {
  const [first, second] = [useRollout(jobId, before), useRollout(jobId, after)];
  const rollouts = [
    { id: before, name: stepName(first.data?.step) },
    { id: after, name: stepName(second.data?.step) },
  ];
  return (
    <>
      <h1>{first.data ? `Row ${first.data.row_index} before and after` : "Two traces"}</h1>
      <SideBySide jobId={jobId} rollouts={rollouts} story={story} />
    </>
  );
}

function stepName(step: number | undefined): string {
  return step === undefined ? "" : `step ${step}`;
}

function story(turn: number | null): string {
  return turn === null ? "Both say and hear the same to the end." : `They part at turn ${turn}.`;
}
