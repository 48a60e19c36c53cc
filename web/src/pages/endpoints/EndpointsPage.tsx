import { useState } from "react";
import { Link } from "wouter";
import type { EndpointOfJobs, JobCalls } from "../../api/types";
import { Empty, Problem, Skeleton } from "../../components/State";
import { useNow } from "../../data/clock";
import { useEndpointsOfJobs } from "../../data/endpoints";
import { byHost, type Host, leftOutNotice, loadOf } from "../../lib/endpoints";
import { ago, count, percent } from "../../lib/format";
import { answer, errorParts, lastTrouble, milliseconds, toneOf } from "../../lib/ledger";
import { FailedCalls } from "./FailedCalls";
import { Load } from "./Load";
import { Registered } from "./Registered";
import { Rehearsals } from "./Rehearsals";
import "../../components/form.css";
import "./endpoints.css";

/** Customers' tools and graders over all jobs. */
export function EndpointsPage() {
  const endpoints = useEndpointsOfJobs();
  const now = useNow(true);
  const notice = endpoints.data ? leftOutNotice(endpoints.data) : null;
  return (
    <>
      <title>Endpoints · Agent RFT</title>
      <h1>Endpoints</h1>
      {endpoints.error && <Problem error={endpoints.error} onRetry={() => void endpoints.refetch()} />}
      {endpoints.isPending && <Skeleton height={220} />}
      {notice && <p className="muted small">{notice}</p>}
      {endpoints.data?.data.length === 0 && (
        <section className="panel" aria-label="Calls">
          <Empty title="No job has called an endpoint within a day">
            Every attempt of every call is counted here, over all jobs.
          </Empty>
        </section>
      )}
      {byHost(endpoints.data?.data ?? []).map((host) => (
        <HostPanel key={host.name} host={host} now={now} />
      ))}
      <Registered now={now} />
      <Rehearsals />
    </>
  );
}

function HostPanel({ host, now }: { host: Host; now: number }) {
  const warnings = host.endpoints.flatMap(({ jobs }) => jobs.map(({ health }) => health.warning));
  const told = [...new Set(warnings.filter((warning) => warning !== null))];
  return (
    <section className="panel" aria-label={`Host ${host.name}`}>
      <header>
        <h2 className="endpoint-url">{host.name}</h2>
        <span className={`badge ${host.mark.tone}`}>{host.mark.label}</span>
        <span className="spacer" />
        <span className="muted small">Calls in flight: {loadOf(host)}</span>
      </header>
      {told.length > 0 && <p className="endpoint-warning bad">{told.join(" ")}</p>}
      <div className="scroll">
        <table className="endpoints">
          <thead>
            <tr>
              <th>Endpoint</th>
              <th>Errors and 4xx</th>
              <th>Job</th>
              <th className="number">Attempts</th>
              <th className="number">Latency p50, p95</th>
              <th>In flight, and how many may be</th>
              <th>Last of them</th>
            </tr>
          </thead>
          <tbody>
            {host.endpoints.flatMap((endpoint) =>
              endpoint.jobs.map((calls) => (
                <JobRow key={`${calls.job_id} ${calls.health.id}`} endpoint={endpoint} calls={calls} now={now} />
              )),
            )}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function JobRow({ endpoint, calls, now }: { endpoint: EndpointOfJobs; calls: JobCalls; now: number }) {
  const { health } = calls;
  const [isOpen, setOpen] = useState(false);
  const parts = errorParts(health);
  const trouble = lastTrouble(health);
  const row = (
    <tr>
      <td className="nowrap" title={endpoint.url ?? undefined}>
        <span className="mono">{health.endpoint}</span> <span className="muted small">{health.stage}</span>
      </td>
      <td className="endpoint-errors">
        <span className={parts.length ? "" : "muted"}>{percent(health.error_share + health.client_error_share)}</span>{" "}
        <span className="muted small">{parts.map((part) => part.label).join(", ")}</span>
      </td>
      <td className="nowrap" title={`steps ${health.from_step} to ${health.to_step}`}>
        <Link href={`/jobs/${calls.job_id}`}>{calls.job_name ?? calls.job_id}</Link>
        <span className="muted small"> {calls.is_held ? "held" : calls.status}</span>
      </td>
      <td className="number">{count(health.attempts)}</td>
      <td className="number nowrap">
        {milliseconds(health.latency_p50_ms)}, {milliseconds(health.latency_p95_ms)}
        <div className="muted small">queued {milliseconds(health.queued_p95_ms)}</div>
      </td>
      <td className="endpoint-load">
        <Load calls={calls} now={now} />
      </td>
      <td className="nowrap">
        {trouble === null ? (
          <span className="muted">none</span>
        ) : (
          <>
            <Link href={`/jobs/${calls.job_id}/rollouts/${trouble.trace_id}`} className={toneOf(trouble)}>
              {answer(trouble)}
            </Link>
            <span className="muted small"> {ago(trouble.at, now)}</span>
            <div className="small endpoint-more">
              <button type="button" className="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
                request and reply
              </button>
            </div>
          </>
        )}
      </td>
    </tr>
  );
  if (!isOpen) return row;
  return (
    <>
      {row}
      <tr>
        <td colSpan={7}>
          <FailedCalls calls={calls} now={now} />
        </td>
      </tr>
    </>
  );
}
