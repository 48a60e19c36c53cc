/** What several jobs were ordered with, field by field. */
import { ExactNumber } from "../api/exact_json";
import type { Job } from "../api/types";

export interface SettingRow {
  /** `grader.operation`, `tools.search.server_url`. */
  path: string;
  /** As text, job by job; null where a job has no such field. */
  values: (string | null)[];
  isSame: boolean;
}

/** Every field that one of the jobs has, in the order of the first that has it. */
export function settingRows(jobs: readonly Job[]): SettingRow[] {
  const settings = jobs.map((job) => new Map(fields(job)));
  const paths = [...new Set(settings.flatMap((one) => [...one.keys()]))];
  const rows = paths.map((path) => {
    const values = settings.map((one) => one.get(path) ?? null);
    return { path, values, isSame: values.every((value) => value === values[0]) };
  });
  const place = (row: SettingRow) => GROUPS.findIndex((group) => row.path.startsWith(group));
  return rows.toSorted((a, b) => place(a) - place(b));
}

/** As they are told; fields of one group stay together though only some jobs have them. The last one fits all. */
const GROUPS = ["model", "training_file", "validation_file", "test_file", "hyperparameters", "tools", "grader", ""];

type Field = [path: string, value: string];

function fields(job: Job): Field[] {
  const method = job.method as { reinforcement?: Record<string, unknown> };
  const { hyperparameters, ...rest } = method.reinforcement ?? {};
  const { model, training_file, validation_file, test_file, seed, metadata } = job;
  // What `auto` became says more than `auto`, and is what two jobs really differ in.
  const used = { ...(hyperparameters as object | undefined), ...withoutNull(job.resolved_hyperparameters ?? {}) };
  const all = flat({
    model,
    training_file,
    validation_file,
    test_file,
    hyperparameters: used,
    ...rest,
    seed,
    metadata,
  });
  return all.filter(([path, value]) => path !== "grader.name" || value !== inventedName(job));
}

/** What the platform calls a grader that has no name: another one in every job. */
function inventedName(job: Job): string {
  return `grader-${job.id.slice(-4)}`;
}

function withoutNull(values: object): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
}

/** Leaves of a document; parts of a list go by their names where they have some. */
function flat(value: unknown, path = ""): Field[] {
  if (value === null || value === undefined || value === "") return [];
  if (Array.isArray(value) && value.every(isPlain)) return value.length ? [[path, value.map(String).join(", ")]] : [];
  if (isPlain(value)) return [[path, String(value)]];
  const isList = Array.isArray(value);
  return Object.entries(value).flatMap(([key, part]) => flat(part, within(path, (isList && nameOf(part)) || key)));
}

function isPlain(value: unknown): boolean {
  return typeof value !== "object" || value === null || value instanceof ExactNumber;
}

function nameOf(part: unknown): string | null {
  const name = typeof part === "object" && part !== null && "name" in part ? part.name : null;
  return typeof name === "string" && name ? name : null;
}

function within(path: string, key: string): string {
  return path ? `${path}.${key}` : key;
}
