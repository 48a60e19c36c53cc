/** The typed way to evals, their runs and what became of each item. */
import { at, call, get, getExact, type Page } from "./http";
import type {
  Change,
  ComparedRow,
  Eval,
  EvalRun,
  ItemStatus,
  ListedEval,
  OutputItem,
  RunComparison,
  Variance,
} from "./types";

const EVALS_PATH = "/v1/evals";
const OF_CUSTOMERS = ["datasource_item"];

const runs = (evalId: string, ...parts: string[]) => `${EVALS_PATH}${at(evalId)}/runs${at(...parts)}`;

/** What a run is ordered with. */
export interface RunOrder {
  name?: string;
  data_source: unknown;
  samples_per_row?: unknown;
  metadata?: Record<string, string>;
}

export interface ComparedRows {
  data: ComparedRow[];
  total: number;
  has_more: boolean;
}

export interface ItemQuery {
  status?: ItemStatus;
  datasource_item_id?: number;
}

export const evalsApi = {
  /** Newest first. */
  list: (after: string | undefined, limit: number) =>
    get<Page<ListedEval>>(EVALS_PATH, { after, limit, order: "desc" }),
  create: (order: object) => call<Eval>("POST", EVALS_PATH, order),
  get: (id: string) => get<Eval>(EVALS_PATH + at(id)),
  remove: (id: string) => call<{ deleted: boolean }>("DELETE", EVALS_PATH + at(id)),
  /** Newest first. */
  runs: (evalId: string, after: string | undefined, limit: number) =>
    get<Page<EvalRun>>(runs(evalId), { after, limit, order: "desc" }),
  run: (evalId: string, id: string) => get<EvalRun>(runs(evalId, id)),
  /** `key`: of this order, see `SendOptions`. */
  start: (evalId: string, order: RunOrder, key: string) => call<EvalRun>("POST", runs(evalId), order, { key }),
  cancel: (evalId: string, id: string) => call<EvalRun>("POST", runs(evalId, id, "cancel")),
  retry: (evalId: string, id: string) => call<EvalRun>("POST", runs(evalId, id, "retry")),
  removeRun: (evalId: string, id: string) => call<{ deleted: boolean }>("DELETE", runs(evalId, id)),
  items: (evalId: string, id: string, query: ItemQuery, after: string | undefined, limit: number) =>
    getExact<Page<OutputItem>>(OF_CUSTOMERS, runs(evalId, id, "output_items"), { ...query, after, limit }),
  variance: (evalId: string, id: string, criterion: string | undefined) =>
    get<Variance>(runs(evalId, id, "variance"), { criterion, limit: 400 }),
  compare: (evalId: string, id: string, other: string) =>
    get<RunComparison>(runs(evalId, id, "compare"), { with: other }),
  comparedRows: (evalId: string, id: string, other: string, change: Change | undefined, offset: number) =>
    getExact<ComparedRows>(OF_CUSTOMERS, runs(evalId, id, "compare", "rows"), {
      with: other,
      change,
      offset,
      limit: 50,
    }),
};
