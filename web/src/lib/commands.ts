/** What the command palette offers, and which of it fits what was typed. */
import type { Job } from "../api/types";
import { SECTIONS } from "./sections";

export interface Command {
  label: string;
  /** Beside the label, and searched, too. */
  detail: string;
  /** Where it leads. */
  href: string;
}

const PAGES: readonly Command[] = [
  ...SECTIONS.map(({ label, href }) => ({ label, detail: "page", href })),
  { label: "New job", detail: "order a training run", href: "/new" },
];

/** Pages that fit every term, those that begin with what was typed first, then the jobs, which the API has searched. */
export function offered(typed: string, jobs: readonly Job[]): Command[] {
  const terms = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const pages = PAGES.filter((page) => fits(page, terms));
  const [first = ""] = terms;
  const begins = (page: Command) => Number(page.label.toLowerCase().startsWith(first));
  return [...pages.toSorted((a, b) => begins(b) - begins(a)), ...jobs.map(toCommand)];
}

/** Where an arrow key takes the choice among so many, round the ends. Null for other keys. */
export function movedChoice(key: string, at: number, count: number): number | null {
  const move = { ArrowDown: 1, ArrowUp: -1 }[key];
  return move === undefined || count === 0 ? null : (at + move + count) % count;
}

function fits(command: Command, terms: readonly string[]): boolean {
  const text = `${command.label} ${command.detail}`.toLowerCase();
  return terms.every((word) => text.includes(word));
}

function toCommand(job: Job): Command {
  const name = job.user_provided_suffix ?? job.model;
  return { label: name, detail: `job ${job.id}, ${job.status}`, href: `/jobs/${job.id}` };
}
