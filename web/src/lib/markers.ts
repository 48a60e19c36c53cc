/** What happened to a job, by step: marks on its reward curve. */
import type { JobEvent, Step } from "../api/types";
import { hasFallen, hasManyExcluded } from "./alarms";
import type { CheckpointRow } from "./checkpoint_rows";
import type { Marker } from "./series";

const KEPT = "--good";
const STOPPED = "--warn";
const WRONG = "--bad";
const TOLD: Readonly<Record<string, Pick<Marker, "label" | "color">>> = {
  held: { label: "held", color: STOPPED },
  paused: { label: "paused", color: STOPPED },
  resumed: { label: "resumed from", color: KEPT },
  early_stop: { label: "ended early", color: STOPPED },
  refused_calls: { label: "calls refused", color: WRONG },
  importance_gap: { label: "trainer and sampler differ", color: WRONG },
};

/** Codes of the events that are marked. */
export const MARKED_CODES = Object.keys(TOLD);

/** Kept checkpoints, what the events tell of, and where alarms began; in the order of their steps. */
export function markersOf(
  checkpoints: readonly CheckpointRow[],
  events: readonly JobEvent[],
  steps: readonly Step[],
): Marker[] {
  const kept = checkpoints
    .filter((row) => row.step > 0)
    .map((row): Marker => ({ step: row.step, label: row.isBest ? "best checkpoint" : "checkpoint kept", color: KEPT }));
  const told = events.flatMap((event): Marker[] => {
    const { code, step } = (event.data ?? {}) as { code?: unknown; step?: unknown };
    const mark = typeof code === "string" ? TOLD[code] : undefined;
    return mark !== undefined && typeof step === "number" ? [{ step, ...mark }] : [];
  });
  return [...kept, ...told, ...alarmMarkers(steps)].toSorted((a, b) => a.step - b.step);
}

/** Where each alarm of the steps began. */
function alarmMarkers(steps: readonly Step[]): Marker[] {
  const untrained = steps.find((step) => step.step === 0);
  const trained = steps.filter((step) => step.record.train !== null);
  const validated = steps.filter((step) => step.record.valid !== null);
  return [
    ...begins(trained, hasManyExcluded, "many excluded from"),
    ...begins(validated, (step) => hasFallen(untrained, step), "below the untrained policy from"),
  ];
}

/** The first of those that follow each other and are alarming. */
function begins(steps: readonly Step[], isAlarming: (step: Step) => boolean, label: string): Marker[] {
  const alarming = steps.map(isAlarming);
  return steps
    .filter((_, i) => alarming[i] && !alarming[i - 1])
    .map(({ step }): Marker => ({ step, label, color: WRONG }));
}

/** What is said of the marks at a step, or of all; empty where there are none. */
export function markersTold(markers: readonly Marker[], step: number | null): string {
  const byLabel = new Map<string, Set<number>>();
  for (const marker of markers)
    if (step === null || marker.step === step)
      byLabel.set(marker.label, (byLabel.get(marker.label) ?? new Set()).add(marker.step));
  return [...byLabel].map(([label, steps]) => `${label}: ${[...steps].join(", ")}`).join("; ");
}
