import type { RegisteredGrader } from "../../api/types";
import { type GraderDraft, newLeaf } from "../../lib/draft";
import { type GraderKind, LEAF_FORMS, type LeafType } from "../../lib/grader_forms";
import { ChoiceField, PartProblem } from "./fields";
import { GraderParts } from "./GraderParts";
import { LeafForm } from "./LeafForm";

interface Props {
  grader: GraderDraft;
  /** Of the API. */
  path: string;
  /** The kinds to choose from, beside several ones and those that are registered. */
  types: readonly LeafType[];
  registered: readonly RegisteredGrader[];
  onChange(grader: GraderDraft): void;
}

/** A grader of any kind: each kind asks for its own. */
export function GraderForm({ grader, path, types, registered, onChange }: Props) {
  const change = (next: Partial<GraderDraft>) => onChange({ ...grader, ...next });
  const kinds: { value: GraderKind; label: string }[] = [
    ...types.map((type) => ({ value: type, label: LEAF_FORMS[type].label })),
    { value: "multi", label: "Several, by a formula" },
  ];
  const first = registered[0];
  if (first || grader.kind === "registered") kinds.push({ value: "registered", label: "A registered one" });
  const choose = (kind: GraderKind) => {
    if (kind === "registered") change({ kind, registered: first?.id ?? "" });
    else if (kind === "multi") change({ kind });
    else change({ kind, leaf: grader.leaf.type === kind ? grader.leaf : newLeaf(kind) });
  };
  return (
    <>
      <ChoiceField
        label="Kind"
        path={`${path}.type`}
        hint={grader.kind in LEAF_FORMS ? LEAF_FORMS[grader.leaf.type].about : undefined}
        value={grader.kind}
        options={kinds}
        onChange={(kind) => choose(kind as GraderKind)}
      />
      {grader.kind === "registered" && (
        <ChoiceField
          label="Registered grader"
          path={`${path}.id`}
          value={grader.registered}
          options={registered.map((one) => ({ value: one.id, label: `${one.name} (${one.type})` }))}
          onChange={(id) => change({ registered: id })}
        />
      )}
      <div className="wide">
        <PartProblem path={path} />
      </div>
      {grader.kind === "multi" ? (
        <GraderParts grader={grader} path={path} onChange={change} />
      ) : (
        grader.kind !== "registered" && (
          <LeafForm leaf={grader.leaf} path={path} onChange={(leaf) => change({ leaf: { ...grader.leaf, ...leaf } })} />
        )
      )}
    </>
  );
}
