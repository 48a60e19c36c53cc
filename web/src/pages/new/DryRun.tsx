import type { ReactNode } from "react";
import { Preformatted } from "../../components/Preformatted";
import { ExactNumber } from "../../api/exact_json";

interface Props {
  /** Of the button. */
  label: string;
  isBusy: boolean;
  canRun: boolean;
  /** What was sent, as far as it is no secret; null before the first try. */
  request: object | null;
  /** What came back. */
  reply: object | null | undefined;
  error: Error | null;
  /** What came of it, in a few words. */
  verdict: ReactNode;
  onRun(): void;
  children?: ReactNode;
}

/** One call as a job makes it, with request and reply. */
export function DryRun({ label, isBusy, canRun, request, reply, error, verdict, onRun, children }: Props) {
  return (
    <div className="dry-run wide">
      {children}
      <div className="dry-run-line">
        <button type="button" disabled={isBusy || !canRun} onClick={onRun}>
          {isBusy ? "Waiting for the reply" : label}
        </button>
        <span role="status">{!isBusy && (error ? <span className="bad">{error.message}</span> : verdict)}</span>
      </div>
      {request && (reply || error) && (
        <div className="exchange">
          <div>
            <h3>Request</h3>
            <Preformatted label="Request" className="json">
              {JSON.stringify(request, null, 2)}
            </Preformatted>
          </div>
          {reply && (
            <div>
              <h3>Reply</h3>
              <Preformatted label="Reply" className="json">
                {JSON.stringify(reply, null, 2)}
              </Preformatted>
            </div>
          )}
        </div>
      )}
    </div>
  );
}

/** Without header values: they are secrets. */
export function withoutSecrets(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutSecrets);
  if (typeof value !== "object" || value === null || value instanceof ExactNumber) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, key === "headers" ? hidden(part) : withoutSecrets(part)]),
  );
}

function hidden(headers: unknown): unknown {
  if (typeof headers !== "object" || headers === null) return headers;
  return Object.fromEntries(Object.keys(headers).map((name) => [name, "•••"]));
}
