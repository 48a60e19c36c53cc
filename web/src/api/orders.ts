/** The typed way to an order: what it comes to, its job, and its tools and grader on one call. */
import { at, call, callExact } from "./http";
import { EXACT_IN_JOBS, JOBS_PATH } from "./jobs";
import type { Estimate, GraderReply, Job, ToolReply } from "./types";

const ALPHA = "/v1/fine_tuning/alpha";

/** One call of a tool, as a rollout makes it. */
export interface ToolCallTried {
  id: string;
  call_id: string;
  trace_id: string;
  arguments: string;
  item: object;
}

export const ordersApi = {
  estimate: (order: object) => call<Estimate>("POST", `${ALPHA}/jobs/estimate`, order),
  /** `key`: of this order, see `SendOptions`. */
  create: (order: object, key: string) => callExact<Job>(EXACT_IN_JOBS, "POST", JOBS_PATH, order, { key }),
  /** `tool`: name, address and headers. */
  runTool: (tool: object, tried: ToolCallTried) => call<ToolReply>("POST", `${ALPHA}/tool/run`, { ...tool, ...tried }),
  tryRegisteredTool: (id: string, args: object, item: object) =>
    call<ToolReply>("POST", `/v1/tools${at(id)}/test`, { arguments: args, item }),
  /** `grader`: in full, or the id of a registered one. */
  runGrader: (grader: object, answer: string, item: object) =>
    call<GraderReply>("POST", `${ALPHA}/graders/run`, { grader, model_sample: answer, item }),
};
