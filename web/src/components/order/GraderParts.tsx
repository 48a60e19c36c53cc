import { type GraderDraft, newLeaf, type PartDraft } from "../../lib/draft";
import { LEAF_FORMS, type LeafType, PART_TYPES } from "../../lib/grader_forms";
import { ChoiceField, PartProblem, TextField } from "./fields";
import { LeafForm } from "./LeafForm";

interface Props {
  grader: GraderDraft;
  path: string;
  onChange(change: Partial<GraderDraft>): void;
}

const OPTIONS = PART_TYPES.map((type) => ({ value: type, label: LEAF_FORMS[type].label }));

/** Several graders, and the formula that makes one reward of their scores. */
export function GraderParts({ grader, path, onChange }: Props) {
  const { parts } = grader;
  const change = (at: number, next: Partial<PartDraft>) =>
    onChange({ parts: parts.map((part, i) => (i === at ? { ...part, ...next } : part)) });
  const add = () =>
    onChange({ parts: [...parts, { name: `part_${parts.length + 1}`, leaf: newLeaf("string_check") }] });
  return (
    <>
      <div className="parts wide">
        <PartProblem path={`${path}.graders`} />
        {parts.map((part, i) => (
          <fieldset key={i} className="part">
            <legend>{part.name || `Part ${i + 1}`}</legend>
            <button
              type="button"
              className="part-remove"
              onClick={() => onChange({ parts: parts.filter((_, at) => at !== i) })}
            >
              Remove
            </button>
            <PartProblem path={`${path}.graders.${part.name}`} />
            <div className="form">
              <TextField
                label="Name in the formula"
                path={`${path}.graders.${part.name}.name`}
                value={part.name}
                onChange={(name) => change(i, { name })}
              />
              <ChoiceField
                label="Kind"
                path={`${path}.graders.${part.name}.type`}
                hint={LEAF_FORMS[part.leaf.type].about}
                value={part.leaf.type}
                options={OPTIONS}
                onChange={(type) => change(i, { leaf: newLeaf(type as LeafType) })}
              />
              <LeafForm
                leaf={part.leaf}
                path={`${path}.graders.${part.name}`}
                onChange={(leaf) => change(i, { leaf: { ...part.leaf, ...leaf } })}
              />
            </div>
          </fieldset>
        ))}
        <div className="actions">
          <button type="button" onClick={add}>
            Add a grader
          </button>
        </div>
      </div>
      <TextField
        label="Formula"
        path={`${path}.calculate_output`}
        hint="Over the names: + - * / ^, min, max, abs, floor, ceil, exp, sqrt, log."
        wide
        isCode
        placeholder="0.8 * answer + 0.2 * format"
        value={grader.formula}
        onChange={(formula) => onChange({ formula })}
      />
    </>
  );
}
