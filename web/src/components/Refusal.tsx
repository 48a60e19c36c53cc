import type { ApiError } from "../api/http";

/** What the platform did not take, and of which field. */
export function Refusal({ error }: { error: Error | ApiError }) {
  const param = "param" in error ? error.param : null;
  return (
    <p className="bad" role="alert">
      {param && <code>{param}: </code>}
      {error.message}
    </p>
  );
}
