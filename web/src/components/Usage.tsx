import type { Job } from "../api/types";
import { count, span } from "../lib/format";
import { Fact } from "./Fact";
import { JudgeTokens } from "./JudgeTokens";

interface Props {
  job: Job;
  /** Custom property of each tool's colour. */
  colors: ReadonlyMap<string, string>;
  isLoading: boolean;
  onDownload(fileId: string): void;
}

/** What a job that is over used up, and its figures as a file. */
export function Usage({ job, colors, isLoading, onDownload }: Props) {
  const usage = job.usage_metrics;
  if (usage === null && job.result_files.length === 0) return null;
  return (
    <section className="panel" aria-labelledby="usage">
      <header>
        <h2 id="usage">Usage and results</h2>
        <span className="spacer" />
        {job.result_files.map((fileId) => (
          <button key={fileId} type="button" disabled={isLoading} onClick={() => onDownload(fileId)}>
            Download results (CSV)
          </button>
        ))}
      </header>
      {usage && (
        <div className="setup">
          <dl className="facts">
            <Fact label="Training time">{span(usage.training_seconds)}</Fact>
            <Fact label="Steps">{count(usage.steps)}</Fact>
            <Fact label="Rollouts">{count(usage.rollouts)}</Fact>
            <Fact label="Tokens sampled">{count(usage.sampled_tokens)}</Fact>
            {usage.reasoning_tokens > 0 && <Fact label="Of these, thoughts">{count(usage.reasoning_tokens)}</Fact>}
          </dl>
          <dl className="facts">
            {Object.entries(usage.tool_calls).map(([name, calls]) => (
              <Fact key={name} label={<Named name={name} color={colors.get(name)} />}>
                {count(calls)} calls
              </Fact>
            ))}
            <JudgeTokens usage={usage.judge_tokens} />
          </dl>
        </div>
      )}
    </section>
  );
}

function Named({ name, color }: { name: string; color: string | undefined }) {
  return (
    <>
      <span className="swatch" style={{ background: `var(${color ?? "--c-quiet"})` }} />{" "}
      <span className="mono">{name}</span>
    </>
  );
}
