/** Inputs of an order, each with what the API says is wrong with it. */
import { createContext, type ReactNode, useContext, useId } from "react";
import { ApiError } from "../../api/http";
import { atField } from "../../lib/draft_order";

export interface OrderProblem {
  /** The field, as the API names it. */
  param: string | null;
  message: string;
  /** The order was sent: before, it is only not whole yet. */
  wasSent: boolean;
}

interface InputsProps {
  /** The order was sent, and its reply is awaited. */
  isUnderWay: boolean;
  children: ReactNode;
}

/** All inputs of an order; none can be changed while it is under way, so that what is seen is what was sent. */
export function Inputs({ isUnderWay, children }: InputsProps) {
  return (
    <fieldset className="inputs" disabled={isUnderWay}>
      {children}
    </fieldset>
  );
}

/** What the API refused of an order, for the fields below a `ProblemContext`. */
export function problemOf(error: Error | null, wasSent: boolean): OrderProblem | null {
  if (error === null) return null;
  return { param: error instanceof ApiError ? error.param : null, message: error.message, wasSent };
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
  /** Id of a list of what may be meant. */
  list?: string;
  isRequired?: boolean;
  /** Lines of a text of several; absent: one line. */
  rows?: number;
  isCode?: boolean;
}

export function TextField({
  value,
  onChange,
  placeholder,
  list,
  isRequired,
  rows,
  isCode = false,
  ...field
}: TextProps) {
  const className = isCode ? "mono" : "";
  return (
    <Field {...field}>
      {(attributes) =>
        rows === undefined ? (
          <input
            {...attributes}
            className={className}
            list={list}
            required={isRequired}
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
            required={isRequired}
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

/** What is chosen is shown, also where it is no choice any more: a browser would show the first one in its place, and
 * another one would be ordered. */
export function ChoiceField({ value, options, onChange, ...field }: ChoiceProps) {
  const isKnown = options.some((option) => option.value === value);
  return (
    <Field {...field}>
      {(attributes) => (
        <select {...attributes} value={value} onChange={(event) => onChange(event.target.value)}>
          {[...options, ...(isKnown ? [] : [{ value, label: value }])].map((option) => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

interface PartProps {
  path: string;
  /** Also what is wrong with something in it: none of its inputs says so. */
  isAll?: boolean;
}

/** A problem of a whole part of the order, which no input of it shows. */
export function PartProblem({ path, isAll = false }: PartProps) {
  const problem = useProblem(path);
  if (problem === null || (problem.param !== path && !isAll)) return null;
  return <p className={problem.wasSent ? "bad small" : "refused small"}>{atField(problem.message)}</p>;
}
