import type { EndedRollout, Failure, Grade } from "../api/types";
import { duration, fixed, humanize, plural } from "../lib/format";
import { barShare, blame, endWords, isFailure, scoresOf } from "../lib/outcome";
import { Fact } from "./Fact";
import { GraderAnswers } from "./GraderAnswers";
import { JudgeTokens } from "./JudgeTokens";

/** What became of the rollout. */
export function OutcomeCard({ rollout }: { rollout: EndedRollout }) {
  const { outcome } = rollout.record;
  return (
    <section className="panel" aria-label="Outcome">
      <header>
        <h2>Outcome</h2>
        <span className="spacer" />
        <span className={isFailure(outcome) ? "badge bad" : "badge good"}>
          {isFailure(outcome) ? "excluded" : "graded"}
        </span>
      </header>
      <div className="card">
        {isFailure(outcome) ? (
          <FailureFacts failure={outcome} />
        ) : (
          <GradeFacts grade={outcome} end={endWords(rollout)} />
        )}
      </div>
    </section>
  );
}

function GradeFacts({ grade, end }: { grade: Grade; end: string }) {
  return (
    <>
      <div className="reward-figure">
        <span className="value">{fixed(grade.reward, 3)}</span>
        <span className="muted">reward</span>
      </div>
      {scoresOf(grade).map(([name, score]) => (
        <div key={name} className="score">
          <span>{name}</span>
          <span className="track" aria-hidden="true">
            <span style={{ width: `${barShare(score) * 100}%` }} />
          </span>
          <span>{fixed(score, 2)}</span>
        </div>
      ))}
      <dl className="facts">
        <Fact label="Ended">{end}</Fact>
        <Fact label="Grader">{grade.grader}</Fact>
        <Fact label="Graded in">
          {duration(grade.latency_s)}
          {(grade.attempts ?? 1) > 1 && `, ${plural(grade.attempts ?? 1, "attempt")}`}
        </Fact>
        {grade.model_errors.map((name) => (
          <Fact key={name} label="In the answer">
            {humanize(name)}
          </Fact>
        ))}
        <JudgeTokens usage={grade.usage ?? {}} />
      </dl>
      <GraderAnswers grade={grade} />
    </>
  );
}

function FailureFacts({ failure }: { failure: Failure }) {
  return (
    <>
      <p>
        <strong className="bad">{blame(failure)}.</strong> {failure.message}
      </p>
      <p className="muted small">Not scored: it counts neither as 0 nor towards the group's mean.</p>
      <dl className="facts">
        <Fact label="Code">{humanize(failure.code)}</Fact>
        {failure.detail && <Fact label="In detail">{humanize(failure.detail)}</Fact>}
        <Fact label="Stage">{failure.stage}</Fact>
        {failure.endpoint && <Fact label="Endpoint">{failure.endpoint}</Fact>}
        {failure.status !== null && failure.status !== undefined && <Fact label="HTTP status">{failure.status}</Fact>}
        <Fact label="Attempts">{failure.attempts ?? 1}</Fact>
        <Fact label="Tried for">{duration(failure.elapsed_s)}</Fact>
      </dl>
    </>
  );
}
