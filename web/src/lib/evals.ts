/** Evals in text: what an order, a run and an output item say. */
import type { CriterionComparison, Eval, EvalRun, RewardDifference, RewardEstimate } from "../api/types";
import { delta, percent, plural } from "./format";
import { fieldsOf, type Fields, text } from "./json_fields";

export interface CriterionView {
  id: string;
  name: string;
  type: string;
  /** What it holds the answer against, where that is said in a line. */
  detail: string | null;
  /** From which score on it passes, where the order says so. */
  passesFrom: number | null;
}

/** An eval's testing criteria, in their order. */
export function criteriaOf({ testing_criteria }: Eval): CriterionView[] {
  return testing_criteria.map((each) => ({
    id: text(each.id),
    name: text(each.name) || text(each.type),
    type: text(each.type).replaceAll("_", " "),
    detail: detailOf(each),
    passesFrom: typeof each.pass_threshold === "number" ? each.pass_threshold : null,
  }));
}

function detailOf(criterion: Fields): string | null {
  switch (criterion.type) {
    case "string_check":
      return `${text(criterion.input)} ${OPERATIONS[text(criterion.operation)] ?? ""} ${text(criterion.reference)}`;
    case "text_similarity":
      return `${text(criterion.input)} like ${text(criterion.reference)} by ${text(criterion.evaluation_metric)}`;
    case "endpoint":
      return text(criterion.url);
    case "score_model":
    case "label_model":
      return `by the judge ${text(criterion.model)}`;
    case "multi":
      return text(criterion.calculate_output);
    default:
      return null;
  }
}

const OPERATIONS: Record<string, string> = { eq: "=", ne: "≠", like: "contains", ilike: "contains (any case)" };

/** The names that templates may use of an item. */
export function itemFields({ data_source_config }: Eval): string[] {
  const item = fieldsOf(fieldsOf(data_source_config.schema.properties).item);
  return Object.keys(fieldsOf(item.properties));
}

export function isGoing(run: Pick<EvalRun, "status">): boolean {
  return run.status === "queued" || run.status === "in_progress";
}

/** Whether something of a run that is over has no verdict: an error, or what it did not come to. */
export const hasUnjudged = (run: Pick<EvalRun, "status" | "result_counts">): boolean =>
  !isGoing(run) && (run.status !== "completed" || run.result_counts.errored > 0);

/** `62 %` and `51 % to 72 %`: a share with its interval at 95 %. */
export function share(estimate: RewardEstimate | null | undefined): { value: string; interval: string | null } {
  if (!estimate) return { value: percent(null), interval: null };
  return { value: percent(estimate.mean), interval: `${percent(estimate.low)} to ${percent(estimate.high)}` };
}

/** Of a run that is not over too: passed of what has a verdict. */
export function passedShare(run: EvalRun): number | null {
  const { passed, failed } = run.result_counts;
  return run.figures?.passed?.mean ?? (passed + failed > 0 ? passed / (passed + failed) : null);
}

/** The largest k that the run's samples tell of, but for 1. */
export function passAtK(run: EvalRun): { k: number; value: number } | null {
  const all = Object.entries(run.figures?.pass_at_k ?? {}).map(([k, value]) => ({ k: Number(k), value }));
  const last = all.toSorted((one, other) => one.k - other.k).at(-1);
  return last && last.k > 1 ? last : null;
}

/** What is done, in [0, 1]; null before the items are counted. */
export function runShare(run: EvalRun): number | null {
  return run.rows ? Math.min(1, run.result_counts.total / (run.rows * run.samples_per_row)) : null;
}

/** Where its answers come from. */
export function answeredBy(run: Pick<EvalRun, "model">): string {
  return run.model || "given samples";
}

/** A difference with its interval, and whether chance explains it. */
export function differenceWords(difference: RewardDifference, isShare: boolean): { text: string; tone: string } {
  const [mean, low, high] = [difference.difference, difference.low, difference.high].map((value) =>
    isShare ? `${delta(value * 100, 1)}` : delta(value),
  );
  const unit = isShare ? " points" : "";
  const tone = difference.low > 0 ? "good" : difference.high < 0 ? "bad" : "muted";
  return { text: `${mean}${unit} (95 %: ${low} to ${high})`, tone };
}

/** Of one criterion's scores, also where nothing tells an interval. */
export function scoreWords(criterion: CriterionComparison): { text: string; tone: string } {
  const { score, rows, score_difference: mean } = criterion;
  if (score) return differenceWords(score, false);
  if (rows === 0) return { text: "no score in both", tone: "muted" };
  return { text: `${delta(mean)} over ${plural(rows, "item")}; ${NO_SPREAD}`, tone: "muted" };
}

const NO_SPREAD = "nothing tells how their differences spread";

/** Why chance may explain a difference, or that it does not. */
export function verdictWords(difference: RewardDifference): string {
  if (difference.low > 0) return "A is better beyond chance.";
  if (difference.high < 0) return "B is better beyond chance.";
  return "The interval includes no difference: chance may explain it.";
}
