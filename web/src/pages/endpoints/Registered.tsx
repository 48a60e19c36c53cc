import type { RegisteredGrader, RegisteredTool } from "../../api/types";
import { Scroll } from "../../components/Scroll";
import { Empty, Problem, Skeleton } from "../../components/State";
import { useGraders, useTools } from "../../data/registry";
import { ago, percent } from "../../lib/format";

type Health = RegisteredTool["health"];

const TONES: Record<Health["status"], string> = { healthy: "good", degraded: "warn", failing: "bad", unknown: "" };

/** Tools and graders that orders name by their id, and how they fared when they were last called. */
export function Registered({ now }: { now: number }) {
  const tools = useTools();
  const graders = useGraders();
  const problem = tools.error ?? graders.error;
  const all = [...(tools.data ?? []).map(ofTool), ...(graders.data ?? []).map(ofGrader)];
  return (
    <section className="panel" aria-labelledby="registered">
      <header>
        <h2 id="registered">Registered tools and graders</h2>
        <span className="muted small">by their newest calls, or their last test</span>
      </header>
      {problem && <Problem error={problem} onRetry={() => void Promise.all([tools.refetch(), graders.refetch()])} />}
      {(tools.isPending || graders.isPending) && <Skeleton height={80} />}
      {tools.data && graders.data && all.length === 0 && (
        <Empty title="None are registered">
          <span>
            Register one once and name it in every order: <code>rft tools create</code>, <code>rft graders create</code>
          </span>
        </Empty>
      )}
      {all.length > 0 && (
        <Scroll label="Registered tools and graders">
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th>Health</th>
                <th className="spare">Address</th>
                <th className="number">Errors</th>
                <th>Last called</th>
              </tr>
            </thead>
            <tbody>
              {all.map(({ id, name, kind, address, health }) => (
                <tr key={id}>
                  <td className="endpoint-url">
                    {name} <span className="muted small">{kind}</span>
                  </td>
                  <td>
                    <span className={`badge ${TONES[health.status]}`}>{health.status}</span>
                  </td>
                  <td className="spare mono endpoint-url">{address}</td>
                  <td className="number">{percent(health.error_share)}</td>
                  <td className="muted nowrap">{health.last_seen === null ? "never" : ago(health.last_seen, now)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </section>
  );
}

const ofTool = ({ id, name, server_url, health }: RegisteredTool) => ({
  id,
  name,
  kind: "tool",
  address: server_url,
  health,
});

const ofGrader = ({ id, name, type, grader, health }: RegisteredGrader) => ({
  id,
  name,
  kind: `${type.replaceAll("_", " ")} grader`,
  address: typeof grader.url === "string" ? grader.url : "–",
  health,
});
