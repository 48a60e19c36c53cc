import { useContext } from "react";
import type { LeafDraft } from "../../lib/draft";
import { LEAF_FORMS, type MessageDraft } from "../../lib/grader_forms";
import { filledIn, sampleOf } from "../../lib/template";
import { ChoiceField, TextField } from "./fields";
import { Headers } from "./Headers";
import { PreviewedRowContext } from "./previewed_row";

interface Props {
  leaf: LeafDraft;
  /** Of the API. */
  path: string;
  onChange(change: Partial<LeafDraft>): void;
}

const ROWS = { template: 2, code: 10, prose: 4, lines: 3 } as const;
const ROLES = ["system", "developer", "user", "assistant"].map((role) => ({ value: role, label: role }));

/** What one kind of grader asks for, its templates filled in with a real row. */
export function LeafForm({ leaf, path, onChange }: Props) {
  const form = LEAF_FORMS[leaf.type];
  return (
    <>
      {form.fields.map(({ name, label, input, choices, hint }) => {
        const value = leaf.values[name] ?? "";
        const set = (next: string) => onChange({ values: { ...leaf.values, [name]: next } });
        const shared = { label, path: `${path}.${name}`, hint, value, onChange: set };
        if (input === "choice")
          return (
            <ChoiceField key={name} {...shared} options={(choices ?? []).map((one) => ({ value: one, label: one }))} />
          );
        if (input === "text" || input === "numbers") return <TextField key={name} {...shared} />;
        return (
          <div key={name} className={input === "lines" ? "" : "wide"}>
            <TextField {...shared} rows={ROWS[input]} isCode={input === "code" || input === "template"} />
            {input === "template" && <FilledIn template={value} />}
          </div>
        );
      })}
      {form.hasMessages && (
        <Messages messages={leaf.messages} path={`${path}.input`} onChange={(messages) => onChange({ messages })} />
      )}
      {form.hasHeaders && <Headers headers={leaf.headers} onChange={(headers) => onChange({ headers })} />}
    </>
  );
}

interface MessagesProps {
  messages: readonly MessageDraft[];
  path: string;
  onChange(messages: MessageDraft[]): void;
}

/** What the judge is told. */
function Messages({ messages, path, onChange }: MessagesProps) {
  const change = (at: number, next: Partial<MessageDraft>) =>
    onChange(messages.map((message, i) => (i === at ? { ...message, ...next } : message)));
  return (
    <div className="parts wide">
      {messages.map((message, i) => (
        <div key={i} className="message-draft">
          <ChoiceField
            label={`Message ${i + 1}`}
            path={`${path}[${i}].role`}
            value={message.role}
            options={ROLES}
            onChange={(role) => change(i, { role })}
          />
          <div>
            <TextField
              label={`Content of message ${i + 1}`}
              path={`${path}[${i}].content`}
              rows={3}
              isCode
              value={message.content}
              onChange={(content) => change(i, { content })}
            />
            <FilledIn template={message.content} />
          </div>
          <button type="button" onClick={() => onChange(messages.filter((_, at) => at !== i))}>
            Remove
          </button>
        </div>
      ))}
      <div className="actions">
        <button type="button" onClick={() => onChange([...messages, { role: "user", content: "" }])}>
          Add a message
        </button>
      </div>
    </div>
  );
}

/** The template as the grader reads it, on the row that is previewed. */
function FilledIn({ template }: { template: string }) {
  const row = useContext(PreviewedRowContext);
  if (!row?.item || !template.includes("{{")) return null;
  const pieces = filledIn(template, { item: row.item, sample: sampleOf(row.answer) });
  const missing = pieces.filter((piece) => piece.kind === "missing");
  return (
    <div className="filled-in">
      <span className="muted small">On row {row.index + 1}: </span>
      {pieces.every((piece) => piece.text === "") && (
        <span className="muted small">nothing, before there is an answer</span>
      )}
      {pieces.map((piece, i) => (
        <span key={i} className={`piece ${piece.kind}`}>
          {piece.text}
        </span>
      ))}
      {missing.length > 0 && <span className="refused small"> names nothing in this row or answer</span>}
    </div>
  );
}
