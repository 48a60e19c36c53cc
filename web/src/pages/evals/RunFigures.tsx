import type { EvalRun } from "../../api/types";
import { Tile } from "../../components/Tile";
import { isGoing, passAtK, passedShare, share } from "../../lib/evals";
import { compact, count, duration, fixed, humanize, percent } from "../../lib/format";

/** A run in numbers; what has no verdict stands beside them and is in none. */
export function RunTiles({ run }: { run: EvalRun }) {
  const { figures, result_counts: counts } = run;
  const { interval } = share(figures?.passed);
  const k = passAtK(run);
  const codes = Object.entries(figures?.errored_by_code ?? {});
  return (
    <dl className="tiles" aria-label="Figures">
      <Tile
        label={isGoing(run) ? "Passed so far" : "Passed"}
        value={percent(passedShare(run))}
        note={interval ? `95 %: ${interval}` : `${count(counts.passed)} of ${count(counts.passed + counts.failed)}`}
      />
      {k && <Tile label={`pass@${k.k}`} value={percent(k.value)} note={`one of ${k.k} samples passes`} />}
      <Tile
        label="Errored"
        value={count(counts.errored)}
        note={codes.map(([code, times]) => `${humanize(code)} ${count(times)}`).join(", ") || "in no figure"}
      />
      {figures?.latency && (
        <Tile label="Latency" value={duration(figures.latency.p50_s)} note={`p95 ${duration(figures.latency.p95_s)}`} />
      )}
      {figures?.completion_tokens_per_sample != null && (
        <Tile
          label="Tokens per sample"
          value={compact(figures.completion_tokens_per_sample)}
          note={`${compact(figures.tool_calls_per_sample)} tool calls`}
        />
      )}
      {figures?.cost != null && (
        <Tile label="Cost" value={fixed(figures.cost, 4)} note={`${count(figures.prompt_tokens)} tokens read`} />
      )}
    </dl>
  );
}
