/** Why a reward is what it is: what graders were shown, and what they said. */
import type { Grade, Grading } from "../api/types";

export interface GraderAnswer {
  name: string;
  /** Null where it gave none, or where there is only one grader, whose score is the reward. */
  score: number | null;
  /** Code of what went wrong. */
  problem: string | null;
  details: string | null;
  reply: string | null;
}

/** One for each part of a grade that has something to say beyond its score. */
export function answersOf(grade: Grade): GraderAnswer[] {
  const parts = Object.entries(grade.parts ?? {});
  const all: GraderAnswer[] =
    parts.length === 0
      ? [
          {
            name: grade.grader,
            score: null,
            problem: null,
            details: grade.error_details ?? null,
            reply: grade.reply ?? null,
          },
        ]
      : parts.map(([name, part]) => ({
          name,
          score: part.score ?? null,
          problem: part.failure_code ?? null,
          details: part.error_details ?? part.failure_message ?? null,
          reply: part.reply ?? null,
        }));
  return all.filter((one) => one.details !== null || one.reply !== null);
}

export interface RowField {
  name: string;
  /** One line, or JSON on several. */
  value: string;
  isLong: boolean;
}

/** What stands in the conversation already. */
const SHOWN_ELSEWHERE: readonly string[] = ["messages", "tools"];
const SHORT = 48;

/** The row's own fields, in its order: the reference that the answer was held against is among them. */
export function rowFields(item: NonNullable<Grading["item"]>): RowField[] {
  return Object.entries(item)
    .filter(([name]) => !SHOWN_ELSEWHERE.includes(name))
    .map(([name, value]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      const isLong = text.length > SHORT || text.includes("\n");
      return { name, value: isLong && typeof value !== "string" ? JSON.stringify(value, null, 2) : text, isLong };
    });
}
