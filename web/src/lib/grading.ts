/** Why a reward is what it is: what graders were shown, and what they said. */
import type { Grade, Grading } from "../api/types";
import { prettyJson } from "./json_text";

export interface GraderAnswer {
  name: string;
  /** Null where it gave none, or where there is only one grader, whose score is the reward. */
  score: number | null;
  /** Code of what went wrong. */
  problem: string | null;
  details: string | null;
  /** What it was sent; null where it was not asked. */
  request: string | null;
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
            request: grade.request ?? null,
            reply: grade.reply ?? null,
          },
        ]
      : parts.map(([name, part]) => ({
          name,
          score: part.score ?? null,
          problem: part.failure_code ?? null,
          details: part.error_details ?? part.failure_message ?? null,
          request: part.request ?? null,
          reply: part.reply ?? null,
        }));
  return all.filter((one) => one.details !== null || one.request !== null || one.reply !== null);
}

/** A judge's messages as text, any other request as JSON; one that was shortened stays as it is kept. */
export function shownRequest(request: string): string {
  const messages = messagesOf(request);
  if (messages === null) return prettyJson(request);
  return messages.map((message) => `[${message.role}]\n${message.content}`).join("\n\n");
}

interface JudgeMessage {
  role: string;
  content: string;
}

function messagesOf(request: string): JudgeMessage[] | null {
  try {
    const { messages } = JSON.parse(request) as { messages?: unknown };
    return Array.isArray(messages) && messages.every(isJudgeMessage) ? messages : null;
  } catch {
    return null;
  }
}

function isJudgeMessage(value: unknown): value is JudgeMessage {
  if (typeof value !== "object" || value === null) return false;
  const { role, content } = value as Record<string, unknown>;
  return typeof role === "string" && typeof content === "string";
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
