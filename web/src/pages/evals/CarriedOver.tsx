import type { EvalRun } from "../../api/types";
import { carriedWords, NOTHING } from "../../lib/run_carried";
import type { RunForm } from "../../lib/run_order";

interface Props {
  /** The run that the form began with. */
  latest: EvalRun;
  form: RunForm;
  change(part: Partial<RunForm>): void;
}

/** What of the latest run has no input here: what is ordered as it was, and what cannot be. */
export function CarriedOver({ latest, form: { carried }, change }: Props) {
  const summary = carriedWords(carried);
  return (
    <>
      {summary.length > 0 && (
        <p className="wide actions muted">
          <span>
            As in {latest.name}: {summary.join(", ")}.
          </span>
          <button type="button" onClick={() => change({ carried: { ...NOTHING, leftOut: carried.leftOut } })}>
            Leave these out
          </button>
        </p>
      )}
      {carried.leftOut.length > 0 && (
        <p className="wide refused">
          Not taken over from {latest.name}: {carried.leftOut.join("; ")}.
        </p>
      )}
    </>
  );
}
