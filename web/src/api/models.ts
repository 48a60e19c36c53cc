/** The typed way to models. */
import { get } from "./http";
import type { Model } from "./types";

const MODELS_PATH = "/v1/models";

export const modelsApi = {
  /** Base models, fine-tuned ones, checkpoints. */
  list: async () => (await get<{ data: Model[] }>(MODELS_PATH)).data,
};
