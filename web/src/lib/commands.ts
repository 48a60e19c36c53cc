/** What the command palette offers, and which of it fits what was typed. */
import type { Action, Job, ListedEval, Rehearsal, StoredFile } from "../api/types";
import { isPlayed } from "./endpoints";
import { isGoing } from "./evals";
import { compareAddress } from "./job_search";
import { SECTIONS } from "./sections";
import { actions } from "./standing";

/** Something that is done at once, not on a page of its own. */
export type Operation =
  | { kind: "keys" }
  | { kind: "sign-out" }
  | { kind: "notices" }
  | { kind: "job"; jobId: string; name: string; action: Action }
  | { kind: "eval-run"; evalId: string; runId: string }
  | { kind: "rehearsal"; id: string };

/** What commands may be about. */
export interface Known {
  /** Found by the API for what was typed, see `asked`. */
  jobs: readonly Job[];
  /** The one whose page is open. */
  current?: Job | undefined;
  evals?: readonly ListedEval[];
  files?: readonly StoredFile[];
  rehearsals?: readonly Rehearsal[];
  /** Whether the browser tells of jobs; null where it cannot. */
  isNotifying?: boolean | null;
}

export interface Command {
  label: string;
  /** Beside the label, and searched, too. */
  detail: string;
  /** Where it leads; or what it does. */
  does: string | Operation;
}

const PAGES: readonly Command[] = [
  ...SECTIONS.map(({ label, href }) => ({ label, detail: "page", does: href })),
  { label: "New job", detail: "order a training run", does: "/new" },
];

/** Offered to whoever types a part of them. */
const OTHERS: readonly Command[] = [
  { label: "New eval", detail: "define what is measured", does: "/evals/new" },
  { label: "Upload a dataset", detail: "datasets", does: "/datasets" },
  { label: "Compare jobs", detail: "choose them in the list", does: "/" },
  { label: "Chat with a model", detail: "models", does: "/models/chat" },
  { label: "Rehearse a step's burst", detail: "endpoints", does: "/endpoints" },
  { label: "Create an API key", detail: "settings", does: "/settings" },
  { label: "Add a provider", detail: "settings", does: "/settings" },
  { label: "Make a signing secret", detail: "settings", does: "/settings" },
  { label: "Keys", detail: "the list of them", does: { kind: "keys" } },
  { label: "Sign out", detail: "end this session", does: { kind: "sign-out" } },
];

const VERBS = ["pause", "resume", "cancel", "clone", "compare"] as const;
/** Evals, datasets and rehearsals of each kind, at most. */
const MOST_NAMED = 8;
type Verb = (typeof VERBS)[number];

/** What was typed, apart: what is to be done with a job, and the query that finds it. */
export function asked(typed: string): { verb: Verb | null; query: string } {
  const [first = "", ...rest] = typed.trim().split(/\s+/);
  const verb = VERBS.find((one) => one === first.toLowerCase()) ?? null;
  return { verb, query: verb === null ? typed.trim() : rest.join(" ") };
}

/** Pages and actions that fit every term, those that begin with what was typed first; then what can be done with the
 * job whose page is open; then the jobs, which the API has searched for the query; then what else has such a name. */
export function offered(typed: string, known: Known): Command[] {
  const { jobs, current } = known;
  const terms = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const among = terms.length > 0 ? [...PAGES, ...OTHERS, ...noticesOf(known)] : PAGES;
  const [first = ""] = terms;
  const begins = (command: Command) => Number(command.label.toLowerCase().startsWith(first));
  const fitting = among.filter((command) => fits(command, terms)).toSorted((a, b) => begins(b) - begins(a));
  const ofCurrent = current ? commandsOf(current).filter((command) => fits(command, terms)) : [];
  const { verb } = asked(typed);
  const others = verb === null ? jobs.map(toCommand) : jobs.flatMap((job) => done(verb, job, current));
  const shown = new Set(ofCurrent.map(keyOf));
  const named = terms.length > 0 ? namedCommands(known).flatMap((kind) => firstOf(kind, terms)) : [];
  return [...fitting, ...ofCurrent, ...others.filter((command) => !shown.has(keyOf(command))), ...named];
}

/** Tells commands apart. */
export function keyOf({ label, does }: Command): string {
  return `${label} ${typeof does === "string" ? does : JSON.stringify(does)}`;
}

/** Where an arrow key takes the choice among so many, round the ends. Null for other keys. */
export function movedChoice(key: string, at: number, count: number): number | null {
  const move = { ArrowDown: 1, ArrowUp: -1 }[key];
  return move === undefined || count === 0 ? null : (at + move + count) % count;
}

function fits(command: Command, terms: readonly string[]): boolean {
  const text = `${command.label} ${command.detail}`.toLowerCase();
  return terms.every((term) => text.includes(term));
}

function firstOf(commands: readonly Command[], terms: readonly string[]): Command[] {
  return commands.filter((command) => fits(command, terms)).slice(0, MOST_NAMED);
}

function noticesOf({ isNotifying = null }: Known): Command[] {
  if (isNotifying === null) return [];
  const label = isNotifying ? "Stop notifying" : "Notify me";
  return [{ label, detail: "when a job whose page is open needs a look, or has ended", does: { kind: "notices" } }];
}

/** By kind: evals and their runs, datasets, rehearsals. */
function namedCommands({ evals = [], files = [], rehearsals = [] }: Known): Command[][] {
  return [
    evals.map(({ id, name }) => ({ label: name, detail: `eval ${id}`, does: `/evals/${id}` })),
    evals.map(({ id, name }) => ({ label: `Run ${name}`, detail: `eval ${id}`, does: newRunAddress(id) })),
    evals.flatMap(({ id, name, latest_run: run }) =>
      run !== null && isGoing(run)
        ? [{ label: `Cancel the run of ${name}`, detail: `eval ${id}`, does: evalRun(id, run.id) }]
        : [],
    ),
    files.map(({ id, filename }) => ({ label: filename, detail: `dataset ${id}`, does: `/datasets/${id}` })),
    rehearsals.filter(isPlayed).map(({ id }) => ({
      label: "Cancel the rehearsal",
      detail: id,
      does: { kind: "rehearsal", id },
    })),
  ];
}

function evalRun(evalId: string, runId: string): Operation {
  return { kind: "eval-run", evalId, runId };
}

/** Of the page of an eval where a run is being ordered. */
export function newRunAddress(evalId: string): string {
  return `/evals/${evalId}?run=new`;
}

function nameOf(job: Job): string {
  return job.user_provided_suffix ?? job.model;
}

function toCommand(job: Job): Command {
  return { label: nameOf(job), detail: `job ${job.id}, ${job.status}`, does: `/jobs/${job.id}` };
}

/** The pages below a job's, and everything that its state allows. */
function commandsOf(job: Job): Command[] {
  const page = (label: string, part: string): Command => ({
    label: `${label} of ${nameOf(job)}`,
    detail: "this job",
    does: `/jobs/${job.id}/${part}`,
  });
  return [
    page("Rollouts", "rollouts"),
    page("Variance", "variance"),
    page("Policy change", "change"),
    ...VERBS.flatMap((verb) => done(verb, job, job)),
  ];
}

/** Nothing where the job's state does not allow it. `current`: what another one is compared with. */
function done(verb: Verb, job: Job, current: Job | undefined): Command[] {
  const name = nameOf(job);
  const label = `${verb[0]?.toUpperCase()}${verb.slice(1)} ${name}`;
  const detail = `job ${job.id}, ${job.status}`;
  if (verb === "clone") return [{ label, detail, does: `/new?from=${encodeURIComponent(job.id)}` }];
  if (verb === "compare") {
    if (current === undefined || current.id === job.id) return [];
    return [{ label: `${label} with ${nameOf(current)}`, detail, does: compareAddress([current.id, job.id]) }];
  }
  if (!actions(job).includes(verb)) return [];
  return [{ label, detail, does: { kind: "job", jobId: job.id, name, action: verb } }];
}
