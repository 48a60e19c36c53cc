import { useMemo, useState } from "react";
import type { TokenPage } from "../../api/types";
import { Segmented } from "../../components/Segmented";
import { Empty, Problem, Skeleton } from "../../components/State";
import { useTokens } from "../../data/rollouts";
import { count, plural } from "../../lib/format";
import { explained, FIGURES, levels, type OfRollout, type TokenFigure } from "../../lib/token_figures";
import { TokenText } from "./TokenText";
import "./tokens.css";

/** What a rollout was made of, token by token, coloured by what is known of each. */
export function TokenPanel({ jobId, traceId }: { jobId: string; traceId: string }) {
  const asked = useTokens(jobId, traceId);
  const pages = asked.data?.pages;
  const tokens = useMemo(() => pages?.flatMap((page) => page.data) ?? [], [pages]);
  const [figure, setFigure] = useState<TokenFigure>("logprob");
  const first = pages?.[0];
  if (first === undefined) {
    return asked.error ? (
      <Problem error={asked.error} onRetry={() => void asked.refetch()} />
    ) : (
      <Skeleton height={420} />
    );
  }
  if (first.missing !== null) {
    return (
      <Empty title="No tokens are kept">
        <span>{first.missing}</span>
      </Empty>
    );
  }
  const rollout: OfRollout = { promptTokens: first.prompt_tokens, advantage: first.advantage };
  return (
    <section className="panel token-panel" aria-label="Tokens">
      <header>
        <h2>Tokens</h2>
        <span className="muted small">
          {summary(first)}
          {asked.hasNextPage && `; the first ${count(tokens.length)} are loaded`}
        </span>
        <span className="spacer" />
        <Segmented label="Colour by" options={FIGURES} value={figure} onChange={setFigure} />
      </header>
      <p className="token-legend small">
        {levels(figure).map((level) => (
          <span key={level.name}>
            <span className={`token ${level.name}`} aria-hidden="true">
              ab
            </span>{" "}
            {level.label}
          </span>
        ))}
      </p>
      <p className="muted small token-note">{explained(figure, first.advantage)}</p>
      <TokenText
        {...{ tokens, rollout, figure }}
        // What failed is asked for again by hand alone: the end of the text stays in sight.
        hasMore={asked.hasNextPage && !asked.isFetchNextPageError}
        isLoadingMore={asked.isFetchingNextPage}
        onMore={() => void asked.fetchNextPage()}
      />
      {asked.error && <Problem error={asked.error} onRetry={() => void asked.fetchNextPage()} />}
    </section>
  );
}

function summary(page: TokenPage): string {
  return `${plural(page.total_tokens, "token")}, ${count(page.prompt_tokens)} of them the prompt, ${count(page.sampled_tokens)} sampled`;
}
