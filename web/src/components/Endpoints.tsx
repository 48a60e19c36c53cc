import { Link } from "wouter";
import type { Attempt, EndpointHealth } from "../api/types";
import { ago, count, percent } from "../lib/format";
import { answer, errorParts, lastTrouble, milliseconds, toneOf, windowWords } from "../lib/ledger";
import { Empty } from "./State";

interface Props {
  endpoints: readonly EndpointHealth[];
  /** Custom property of each tool's colour. */
  colors: ReadonlyMap<string, string>;
  /** Unix seconds. */
  now: number;
  hrefOf(attempt: Attempt): string;
}

/** How the customer's tools and graders answer: one row each, every attempt counted. */
export function Endpoints({ endpoints, colors, now, hrefOf }: Props) {
  return (
    <section className="panel" aria-labelledby="endpoints">
      <header>
        <h2 id="endpoints">Endpoints</h2>
        <span className="muted small">{windowWords(endpoints)}</span>
      </header>
      {endpoints.length === 0 ? (
        <Empty title="No endpoint has been called yet">Every attempt of every call is counted here.</Empty>
      ) : (
        <div className="scroll">
          <table className="endpoints">
            <thead>
              <tr>
                <th>Endpoint</th>
                <th className="number">Attempts</th>
                <th title="Failed attempts, and calls that the endpoint refused with a 4xx">Errors and 4xx</th>
                <th className="number" title="Half of the attempts took no longer">
                  Latency p50
                </th>
                <th className="number" title="95 % of the attempts took no longer">
                  p95
                </th>
                <th className="number" title="95 % of the attempts waited no longer on our side before they were sent">
                  Queued p95
                </th>
                <th>Last of them</th>
              </tr>
            </thead>
            <tbody>
              {endpoints.map((one) => (
                <tr key={one.id}>
                  <td className="nowrap">
                    <Swatch endpoint={one} colors={colors} />{" "}
                    <span className="mono endpoint-name" title={one.endpoint}>
                      {one.endpoint}
                    </span>
                    <span className="muted small"> {one.stage}</span>
                  </td>
                  <td className="number">{count(one.attempts)}</td>
                  <td>
                    <Errors endpoint={one} />
                  </td>
                  <td className="number nowrap">{milliseconds(one.latency_p50_ms)}</td>
                  <td className="number nowrap">{milliseconds(one.latency_p95_ms)}</td>
                  <td className="number nowrap muted">{milliseconds(one.queued_p95_ms)}</td>
                  <td className="nowrap">
                    <LastTrouble endpoint={one} now={now} hrefOf={hrefOf} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** The newest attempt that gave no result, with the way to it. */
export function LastTrouble({ endpoint, now, hrefOf }: { endpoint: EndpointHealth } & Pick<Props, "now" | "hrefOf">) {
  const attempt = lastTrouble(endpoint);
  if (attempt === null) return <span className="muted">none</span>;
  return (
    <>
      <Link href={hrefOf(attempt)} className={toneOf(attempt)}>
        {answer(attempt)}
      </Link>
      <span className="muted small"> {ago(attempt.at, now)}</span>
    </>
  );
}

/** Endpoints that refuse nearly every call, in words: nothing good is learned while they do. */
export function Refusals({ endpoints }: Pick<Props, "endpoints">) {
  const said = endpoints.filter((one) => one.warning !== null);
  if (said.length === 0) return null;
  return (
    <div className="banner" role="alert">
      <strong>Calls refused</strong>
      <div>
        {said.map((one) => (
          <p key={one.id}>{one.warning}</p>
        ))}
      </div>
    </div>
  );
}

function Swatch({ endpoint, colors }: { endpoint: EndpointHealth; colors: ReadonlyMap<string, string> }) {
  const color = endpoint.stage === "tool" ? colors.get(endpoint.endpoint) : undefined;
  return <span className="swatch" style={{ background: `var(${color ?? "--c-quiet"})` }} />;
}

/** The share of failed attempts as a bar of its codes, the worst named. */
function Errors({ endpoint }: { endpoint: EndpointHealth }) {
  const parts = errorParts(endpoint);
  return (
    <div className="errors" title={parts.map((part) => part.label).join(", ")}>
      <span className={parts.length ? "" : "muted"}>{percent(endpoint.error_share + endpoint.client_error_share)}</span>
      <span className="track" aria-hidden="true">
        {parts.map((part) => (
          <span key={part.code} style={{ width: `${part.share * 100}%`, background: `var(${part.color})` }} />
        ))}
      </span>
      <span className="muted small">{parts.map((part) => part.label).join(", ")}</span>
    </div>
  );
}
