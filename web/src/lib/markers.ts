/** What happened to a job, by step: marks on its reward curve. */
import type { JobEvent } from "../api/types";
import type { CheckpointRow } from "./checkpoint_rows";
import type { Marker } from "./series";

const KEPT = "--good";
const STOPPED = "--warn";
const STOPS: Readonly<Record<string, string>> = {
  held: "held",
  paused: "paused",
  trainer_crashed: "trainer crashed",
  early_stop: "ended early",
};

/** Kept checkpoints, and stops that the events tell of; in the order of their steps. */
export function markersOf(checkpoints: readonly CheckpointRow[], events: readonly JobEvent[]): Marker[] {
  const kept = checkpoints
    .filter((row) => row.step > 0)
    .map((row): Marker => ({ step: row.step, label: row.isBest ? "best checkpoint" : "checkpoint kept", color: KEPT }));
  const stops = events.flatMap((event): Marker[] => {
    const { code, step } = (event.data ?? {}) as { code?: unknown; step?: unknown };
    const label = typeof code === "string" ? STOPS[code] : undefined;
    return label !== undefined && typeof step === "number" ? [{ step, label, color: STOPPED }] : [];
  });
  return [...kept, ...stops].toSorted((a, b) => a.step - b.step);
}

/** What is said of the marks at a step, or of all; empty where there are none. */
export function markersTold(markers: readonly Marker[], step: number | null): string {
  const byLabel = new Map<string, Set<number>>();
  for (const marker of markers)
    if (step === null || marker.step === step)
      byLabel.set(marker.label, (byLabel.get(marker.label) ?? new Set()).add(marker.step));
  return [...byLabel].map(([label, steps]) => `${label}: ${[...steps].join(", ")}`).join("; ");
}
