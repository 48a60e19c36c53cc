import type { OutputItem } from "../../api/types";
import { GraderExchange } from "../../components/GraderExchange";
import { Preformatted } from "../../components/Preformatted";
import { type CriterionView } from "../../lib/evals";
import { type ItemMessage, messagesOf, type ResultView, resultsOf, scoreWords } from "../../lib/output_items";

interface Props {
  item: OutputItem;
  criteria: readonly CriterionView[];
}

/** The item, what was answered, and what each grader said of it. */
export function ItemDetail({ item, criteria }: Props) {
  const names = new Map(criteria.map((each) => [each.id, each.name]));
  const prompt = messagesOf(item.sample, "input");
  const answer = messagesOf(item.sample, "output");
  return (
    <div className="item-detail">
      <div className="stack">
        <h3>Item</h3>
        <Preformatted label="Item">{JSON.stringify(item.datasource_item, null, 2)}</Preformatted>
        {prompt.length > 0 && <Said title="Prompt" messages={prompt} />}
        {answer.length > 0 && <Said title="Answer" messages={answer} />}
        {answer.length === 0 && <p className="muted">There is no answer.</p>}
      </div>
      <div className="stack">
        <h3>Scores</h3>
        {resultsOf(item).map((result) => (
          <Result key={result.id} name={names.get(result.id) ?? result.id} result={result} />
        ))}
      </div>
    </div>
  );
}

function Said({ title, messages }: { title: string; messages: readonly ItemMessage[] }) {
  return (
    <>
      <h3>{title}</h3>
      {messages.map((message, i) => (
        <div key={i} className="said">
          <span className="muted small">{message.role}</span>
          {message.content && (
            <Preformatted label={`Message of ${message.role}`} className="prose">
              {message.content}
            </Preformatted>
          )}
          {message.calls.map((call, place) => (
            <Preformatted key={place} label={`Call of ${call.name}`}>
              {`${call.name}(${call.arguments})`}
            </Preformatted>
          ))}
        </div>
      ))}
    </>
  );
}

function Result({ name, result }: { name: string; result: ResultView }) {
  return (
    <div className="result">
      <div>
        <strong>{name}</strong>{" "}
        {result.error === null && (
          <span className={result.passed ? "good" : "bad"}>
            {scoreWords(result.score)}, {result.passed ? "passed" : "failed"}
          </span>
        )}
      </div>
      {result.parts.length > 0 && (
        <span className="muted small">
          {result.parts.map((part) => `${part.name} ${scoreWords(part.score)}`).join(", ")}
        </span>
      )}
      {result.error && <p className="refused lines">No verdict: {result.error}</p>}
      {result.details && <Preformatted label={`Why ${name} gave that`}>{result.details}</Preformatted>}
      {result.exchanges.map(({ part, ...exchange }) => (
        <div key={part ?? ""} className="grader-answer">
          {part && <span className="muted small">{part}</span>}
          <GraderExchange name={part ?? name} {...exchange} />
        </div>
      ))}
    </div>
  );
}
