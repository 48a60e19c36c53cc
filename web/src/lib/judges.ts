/** Judge models and what names them, in words. */
import type { Judge, JudgeUse } from "../api/types";

const SHOWN = 4;

/** The newest of what names a judge, and how many more do. */
export function shownUses(judge: Pick<Judge, "uses" | "uses_left_out">): { shown: JudgeUse[]; more: number } {
  return {
    shown: judge.uses.slice(0, SHOWN),
    more: Math.max(0, judge.uses.length - SHOWN) + judge.uses_left_out,
  };
}

/** Its page; a registered grader has none. */
export function hrefOfUse(use: Pick<JudgeUse, "kind" | "id">): string | null {
  if (use.kind === "grader") return null;
  return `/${use.kind === "job" ? "jobs" : "evals"}/${use.id}`;
}

const KINDS: Record<JudgeUse["kind"], string> = { job: "job", grader: "registered grader", eval: "eval" };

/** `quarterly reports`, `running job, grader tone`. */
export function wordsOfUse(use: JudgeUse): { name: string; what: string } {
  const name = use.name ?? use.id;
  const graders = use.graders.filter((grader) => grader !== name);
  const named = graders.length === 0 ? "" : `, ${graders.length === 1 ? "grader" : "graders"} ${graders.join(", ")}`;
  return {
    name,
    what: `${use.status === null ? "" : `${use.status.replaceAll("_", " ")} `}${KINDS[use.kind]}${named}`,
  };
}
