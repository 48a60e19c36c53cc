/** Inputs of the order, each with what the API says is wrong with it. */
import { createContext, type ReactNode, useContext, useId } from "react";
import { atField } from "../../lib/draft_order";

export interface OrderProblem {
  /** The field, as the API names it. */
  param: string | null;
  message: string;
  /** The order was sent: before, it is only not whole yet. */
  wasSent: boolean;
}

export const ProblemContext = createContext<OrderProblem | null>(null);
export const REINFORCEMENT = "method.reinforcement";

/** What is wrong with this field, or with something in it. */
function useProblem(path: string): OrderProblem | null {
  const problem = useContext(ProblemContext);
  const param = problem?.param ?? null;
  if (param === null) return null;
  return param === path || param.startsWith(`${path}.`) || param.startsWith(`${path}[`) ? problem : null;
}

interface FieldProps {
  label: string;
  /** Of the API. */
  path: string;
  hint?: ReactNode;
  wide?: boolean;
  children(attributes: { id: string; "aria-describedby": string; "aria-invalid": boolean }): ReactNode;
}

export function Field({ label, path, hint, wide = false, children }: FieldProps) {
  const [id, noteId] = [useId(), useId()];
  const problem = useProblem(path);
  return (
    <div className={wide ? "field wide" : "field"}>
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": noteId, "aria-invalid": problem !== null })}
      <div id={noteId} className="field-note">
        {problem && <span className={problem.wasSent ? "bad" : "refused"}>{atField(problem.message)}</span>}
        {!problem && hint && <span className="muted">{hint}</span>}
      </div>
    </div>
  );
}

interface TextProps extends Omit<FieldProps, "children"> {
  value: string;
  onChange(value: string): void;
  placeholder?: string;
  /** Lines of a text of several; absent: one line. */
  rows?: number;
  isCode?: boolean;
}

export function TextField({ value, onChange, placeholder, rows, isCode = false, ...field }: TextProps) {
  const className = isCode ? "mono" : "";
  return (
    <Field {...field}>
      {(attributes) =>
        rows === undefined ? (
          <input
            {...attributes}
            className={className}
            autoComplete="off"
            spellCheck={!isCode}
            placeholder={placeholder}
            value={value}
            onChange={(event) => onChange(event.target.value)}
          />
        ) : (
          <textarea
            {...attributes}
            className={className}
            rows={rows}
            spellCheck={!isCode}
            placeholder={placeholder}
            value={value}
            onChange={(event) => onChange(event.target.value)}
          />
        )
      }
    </Field>
  );
}

interface ChoiceProps extends Omit<FieldProps, "children"> {
  value: string;
  options: readonly { value: string; label: string }[];
  onChange(value: string): void;
}

export function ChoiceField({ value, options, onChange, ...field }: ChoiceProps) {
  return (
    <Field {...field}>
      {(attributes) => (
        <select {...attributes} value={value} onChange={(event) => onChange(event.target.value)}>
          {options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** A problem of a whole part of the order, which no input of it shows. */
export function PartProblem({ path }: { path: string }) {
  const problem = useContext(ProblemContext);
  if (problem?.param !== path) return null;
  return <p className={problem.wasSent ? "bad small" : "refused small"}>{atField(problem.message)}</p>;
}
