import { prettyJson } from "../lib/json_text";
import { shownRequest } from "../lib/grading";
import { Preformatted } from "./Preformatted";

interface Props {
  /** The grader's, or its part's. */
  name: string;
  request: string | null;
  reply: string | null;
}

/** What a grader was sent, folded, and what it answered. */
export function GraderExchange({ name, request, reply }: Props) {
  return (
    <>
      {request && (
        <details>
          <summary className="small">What {name} was sent</summary>
          <Preformatted label={`What ${name} was sent`}>{shownRequest(request)}</Preformatted>
        </details>
      )}
      {reply && <Preformatted label={`What ${name} answered`}>{prettyJson(reply)}</Preformatted>}
    </>
  );
}
