import type { Job } from "../api/types";
import { count, humanize, plural } from "../lib/format";
import { readOrder, settings } from "../lib/job_order";
import { toolColors } from "../lib/palette";
import { Fact } from "./Fact";

/** What was ordered and what the customer's endpoints must bear. */
export function Setup({ job }: { job: Job }) {
  const order = readOrder(job.method);
  const colors = toolColors(order.tools.map((tool) => tool.name));
  const atOnce = job.resolved_hyperparameters?.burst ?? null;
  return (
    <section className="panel" aria-labelledby="setup">
      <header>
        <h2 id="setup">Setup</h2>
      </header>
      <div className="setup">
        <dl className="facts">
          <Fact label="Base model">{job.model}</Fact>
          <Fact label="Burst per step">
            {atOnce === null ? "known once the files are checked" : plural(atOnce, "rollout")}
          </Fact>
          {settings(job).map((setting) => (
            <Fact key={setting.label} label={setting.label}>
              {setting.value}
              {setting.isAuto && <span className="muted"> auto</span>}
            </Fact>
          ))}
          <Fact label="Tool calls at most">{order.maxToolCalls ?? "default"}</Fact>
          <Fact label="Seed">{String(job.seed)}</Fact>
          {job.trained_tokens !== null && <Fact label="Trained tokens">{count(job.trained_tokens)}</Fact>}
        </dl>
        <dl className="facts endpoints">
          {order.tools.map((tool) => (
            <Fact
              key={tool.name}
              label={
                <>
                  <span className="swatch" style={{ background: `var(${colors.get(tool.name) ?? "--c-quiet"})` }} />{" "}
                  {tool.name}
                </>
              }
            >
              <span className="mono">{tool.url}</span>
            </Fact>
          ))}
          {(order.grader ? [order.grader, ...order.grader.parts] : []).map((grader, i) => (
            <Fact key={grader.name} label={`${i ? "Part" : "Grader"} ${grader.name}`}>
              {grader.url ? <span className="mono">{grader.url}</span> : humanize(grader.type)}
              {grader.judge && <span className="muted"> by {grader.judge}</span>}
            </Fact>
          ))}
          <Fact label="Training file">
            <span className="mono">{job.training_file}</span>
          </Fact>
          <Fact label="Validation file">
            {job.validation_file ? <span className="mono">{job.validation_file}</span> : "none"}
          </Fact>
          {job.test_file && (
            <Fact label="Test file">
              <span className="mono">{job.test_file}</span>
            </Fact>
          )}
        </dl>
      </div>
    </section>
  );
}
