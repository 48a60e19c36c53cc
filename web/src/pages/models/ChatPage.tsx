import { useState } from "react";
import { Link, useSearchParams } from "wouter";
import { Preformatted } from "../../components/Preformatted";
import { Empty, Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { useChat, useModels } from "../../data/models";
import type { ChatCall, ChatTurn, Exchange } from "../../lib/chat";
import { prettyJson } from "../../lib/json_text";
import "../../components/form.css";
import { Composer } from "./Composer";
import "../../components/models.css";
import "./models.css";

/** Talk to a model; a fine-tuned one calls the real tools of its job. `?model=`, `?job=` for a base model. */
export function ChatPage() {
  const [search, setSearch] = useSearchParams();
  const name = search.get("model") ?? "";
  const models = useModels();
  const model = models.data?.find((one) => one.id === name);
  const jobId = model?.fine_tuning_job_id ?? search.get("job");
  return (
    <>
      <Trail parts={[{ label: "Models", href: "/models" }, { label: "Chat" }]} />
      <title>Chat · Agent RFT</title>
      <h1>Chat</h1>
      {models.error && <Problem error={models.error} onRetry={() => void models.refetch()} />}
      {models.isPending && <Skeleton height={320} />}
      {models.data && (
        <>
          <label className="field chat-model">
            Model
            <select value={model ? name : ""} onChange={(event) => setSearch({ model: event.target.value })}>
              {!model && <option value="">{name ? `${name} is not there` : "Choose a model"}</option>}
              {models.data.map((one) => (
                <option key={one.id} value={one.id}>
                  {one.id}
                </option>
              ))}
            </select>
          </label>
          {!model && (
            <Empty title="Choose a model">
              <span>Base models, fine-tuned models and every checkpoint that is kept answer here.</span>
            </Empty>
          )}
          {model && (
            <>
              <p className="muted small">
                {jobId ? (
                  <>
                    It really calls the tools of{" "}
                    <Link href={`/jobs/${jobId}`} className="in-text">
                      {jobId}
                    </Link>
                    ; nothing is graded.
                  </>
                ) : (
                  "A base model: it has no tools here."
                )}
              </p>
              <Conversation key={name} model={name} jobId={jobId} />
            </>
          )}
        </>
      )}
    </>
  );
}

function Conversation({ model, jobId }: { model: string; jobId: string | null }) {
  const [system, setSystem] = useState("");
  const [temperature, setTemperature] = useState("");
  const order = { model, jobId, temperature: temperature.trim() === "" ? null : Number(temperature) };
  const chat = useChat(order, system);
  return (
    <section className="panel chat" aria-label="Conversation">
      <details className="chat-settings">
        <summary>Instructions and temperature</summary>
        <div className="form-body">
          <label className="field">
            Instructions
            <textarea rows={3} value={system} onChange={(event) => setSystem(event.target.value)} />
          </label>
          <label className="field">
            Temperature
            <input
              type="number"
              min={0}
              max={2}
              step="any"
              placeholder="default"
              value={temperature}
              onChange={(event) => setTemperature(event.target.value)}
            />
          </label>
        </div>
      </details>
      <ol className="exchanges" aria-live="polite">
        {chat.exchanges.length === 0 && (
          <Empty title="Say something">
            <span>The first answer may take a while: the model is loaded when it is first asked.</span>
          </Empty>
        )}
        {chat.exchanges.map((exchange, i) => (
          <ExchangeView key={i} exchange={exchange} isGoing={chat.isBusy && i === chat.exchanges.length - 1} />
        ))}
      </ol>
      <Composer isBusy={chat.isBusy} onSay={chat.say} onStop={chat.stop} onClear={chat.clear} />
    </section>
  );
}

function ExchangeView({ exchange, isGoing }: { exchange: Exchange; isGoing: boolean }) {
  return (
    <li className="exchange">
      <p className="chat-said">{exchange.said}</p>
      {exchange.turns.map((turn, i) => (
        <TurnView key={i} turn={turn} />
      ))}
      {isGoing && exchange.turns.length === 0 && <p className="muted">Waiting for the model</p>}
      {exchange.failure && (
        <p className="bad" role="alert">
          {exchange.failure}
        </p>
      )}
      {exchange.end && <p className="muted small">{exchange.end}</p>}
    </li>
  );
}

function TurnView({ turn }: { turn: ChatTurn }) {
  return (
    <div className="chat-turn">
      {turn.thought && (
        <details>
          <summary>Thought</summary>
          <p className="chat-text">{turn.thought}</p>
        </details>
      )}
      {turn.text && <p className="chat-text">{turn.text}</p>}
      {turn.calls.map((call) => (
        <CallView key={call.id} call={call} />
      ))}
    </div>
  );
}

function CallView({ call }: { call: ChatCall }) {
  return (
    <article className="chat-call" aria-label={`Call of ${call.name}`}>
      <header>
        <strong className="mono">{call.name}</strong>
        <span className="muted small">{call.output === null ? "waiting for the tool" : call.note}</span>
        {call.errorCode && <span className="badge bad">{call.errorCode.replaceAll("_", " ")}</span>}
      </header>
      <Preformatted label={`Arguments of ${call.name}`}>{prettyJson(call.arguments)}</Preformatted>
      {call.output !== null && (
        <Preformatted label={`Answer of ${call.name}`} className="chat-output">
          {prettyJson(call.output)}
        </Preformatted>
      )}
    </article>
  );
}
