import { useMemo, useState } from "react";
import type { DiagnosticPoint } from "../api/types";
import { Diagnostics } from "../components/Diagnostics";
import { Problem, Skeleton } from "../components/State";
import { useDiagnostics, useDiagnosticsDetail } from "../data/queries";
import type { Zoom } from "../lib/plot";
import { isThinned, refinedBy } from "../lib/series";

const NO_POINTS: readonly DiagnosticPoint[] = [];

interface Props {
  jobId: string;
  /** The job's own order. */
  tools: readonly string[];
  zoom: Zoom | null;
  onZoom(zoom: Zoom | null): void;
}

/** Closed until somebody wants to know; what it shows is asked for then. */
export function DiagnosticsPanel({ jobId, tools, zoom, onZoom }: Props) {
  const [isOpen, setOpen] = useState(false);
  const told = useDiagnostics(jobId, isOpen);
  const whole = told.data?.data ?? NO_POINTS;
  const detail = useDiagnosticsDetail(jobId, zoom, isOpen && isThinned(whole));
  const part = zoom === null ? undefined : detail.data?.data;
  const points = useMemo(() => refinedBy(whole, part), [whole, part]);
  return (
    <details className="panel folded" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <h2>Diagnostics</h2>
        <span className="muted small">
          signal, what ended rollouts, latency, tokens a second, entropy, gradients, trainer against sampler
        </span>
      </summary>
      {isOpen && told.error && <Problem error={told.error} onRetry={() => void told.refetch()} />}
      {isOpen && told.isPending && <Skeleton height={320} />}
      {isOpen && told.data?.pace && <p className="muted panel-note">{told.data.pace.message}</p>}
      {isOpen && told.data && <Diagnostics {...{ jobId, tools, zoom, onZoom }} points={points} />}
    </details>
  );
}
