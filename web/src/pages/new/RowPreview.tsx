import { Preformatted } from "../../components/Preformatted";
import { isObject, type Json, type JsonObject } from "../../lib/draft";
import type { PreviewedRow } from "../../components/order/previewed_row";

/** A real row: what the model is asked, and what else graders and tools are given. */
export function RowPreview({ row }: { row: PreviewedRow }) {
  const { item, index, count } = row;
  if (row.isLoading) return <p className="muted wide">The first rows are read.</p>;
  if (row.error) return <p className="bad wide">{row.error.message}</p>;
  if (item === null) return <p className="muted wide">The file has no row to show.</p>;
  const { messages, ...fields } = item;
  return (
    <div className="row-preview wide">
      <div className="row-walk">
        <h3>
          Row {index + 1} <span className="muted">of the first {count}</span>
        </h3>
        <button type="button" disabled={index === 0} onClick={() => row.onIndex(index - 1)}>
          Previous row
        </button>
        <button type="button" disabled={index + 1 >= count} onClick={() => row.onIndex(index + 1)}>
          Next row
        </button>
      </div>
      <dl className="prompt">
        {(Array.isArray(messages) ? messages : []).map((message, i) => (
          <div key={i}>
            <dt className="muted small">{isObject(message) ? String(message.role) : "message"}</dt>
            <dd>{contentOf(message)}</dd>
          </div>
        ))}
      </dl>
      <Preformatted label="The row's other fields" className="json">
        {JSON.stringify(withoutTools(fields), null, 2)}
      </Preformatted>
    </div>
  );
}

function contentOf(message: Json): string {
  const content = isObject(message) ? message.content : message;
  return typeof content === "string" ? content : JSON.stringify(content);
}

/** Descriptions of tools are long, and say nothing of this row. */
function withoutTools({ tools, ...fields }: JsonObject): JsonObject {
  const names = Array.isArray(tools) ? tools.map(toolName) : [];
  return names.length ? { ...fields, tools: names } : fields;
}

function toolName(tool: Json): Json {
  if (!isObject(tool)) return tool;
  return (isObject(tool.function) ? tool.function.name : tool.name) ?? "tool";
}
