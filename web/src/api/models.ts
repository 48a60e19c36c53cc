/** The typed way to models. */
import { at, call, get } from "./http";
import type { Model } from "./types";

const MODELS_PATH = "/v1/models";

export const modelsApi = {
  /** Base models, fine-tuned ones, checkpoints. */
  list: async () => (await get<{ data: Model[] }>(MODELS_PATH)).data,
  /** Of a base model with what a look at its files says, which takes seconds the first time. */
  get: (id: string) => get<Model>(MODELS_PATH + at(id)),
  remove: (id: string) => call<{ deleted: boolean }>("DELETE", MODELS_PATH + at(id)),
  /** Where its adapter is downloaded from, as a zip. */
  adapterPath: (id: string) => `${MODELS_PATH}${at(id)}/adapter`,
};
