import type { Grade } from "../api/types";
import { fixed, humanize } from "../lib/format";
import { answersOf } from "../lib/grading";
import { GraderExchange } from "./GraderExchange";
import { Preformatted } from "./Preformatted";

/** What each grader said of the answer, and what kept it from saying more. */
export function GraderAnswers({ grade }: { grade: Grade }) {
  return answersOf(grade).map((one) => (
    <div key={one.name} className="grader-answer">
      <div className="small">
        <span className="muted">{one.name}</span> {one.score !== null && <strong>{fixed(one.score, 3)}</strong>}
        {one.problem && <span className="bad"> {humanize(one.problem)}</span>}
      </div>
      {one.details && <Preformatted label={`Why ${one.name} gave that`}>{one.details}</Preformatted>}
      <GraderExchange {...one} />
    </div>
  ));
}
