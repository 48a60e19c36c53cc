/** The typed way to customers' endpoints over all jobs, and to rehearsals. */
import { at, call, get, type Page } from "./http";
import type { CustomerEndpoints, EndpointHealth, FailedCall, Rehearsal } from "./types";

type EndpointName = Pick<EndpointHealth, "stage" | "endpoint">;

const REHEARSALS_PATH = "/v1/rehearsals";

/** The burst of one step at registered tools and a registered grader. */
export interface RehearsalOrder {
  fileId: string;
  toolIds: readonly string[];
  graderId: string;
  /** Null: what the API takes. */
  batchSize: number | null;
  callsPerRollout: number | null;
}

export const endpointsApi = {
  /** Those in the most trouble first. */
  list: () => get<CustomerEndpoints>("/v1/dashboard/endpoints"),
  /** The last calls of a job's tool or grader that went wrong, newest first. */
  failedCalls: async (job: string, { stage, endpoint }: EndpointName) =>
    (await get<{ data: FailedCall[] }>("/v1/dashboard/endpoints/failed_calls", { job, stage, endpoint })).data,
  /** Newest first. */
  rehearsals: async () => (await get<Page<Rehearsal>>(REHEARSALS_PATH, { limit: 20 })).data,
  rehearse: (order: RehearsalOrder) => call<Rehearsal>("POST", REHEARSALS_PATH, bodyOf(order)),
  cancelRehearsal: (id: string) => call<Rehearsal>("POST", `${REHEARSALS_PATH}${at(id)}/cancel`),
};

function bodyOf(order: RehearsalOrder): object {
  return {
    training_file: order.fileId,
    ...(order.callsPerRollout !== null && { calls_per_rollout: order.callsPerRollout }),
    method: {
      type: "reinforcement",
      reinforcement: {
        grader: { id: order.graderId },
        tools: order.toolIds.map((id) => ({ id })),
        ...(order.batchSize !== null && { hyperparameters: { batch_size: order.batchSize } }),
      },
    },
  };
}
