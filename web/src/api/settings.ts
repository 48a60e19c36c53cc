/** The typed way to API keys, providers and signing secrets. */
import { at, call, get, type Page } from "./http";
import type { ApiKey, Judges, NewApiKey, NewSigningSecret, Provider, SigningSecret } from "./types";

const KEYS_PATH = "/v1/dashboard/keys";
const PROVIDERS_PATH = "/v1/providers";
const SECRETS_PATH = "/v1/signing_secrets";

export interface ProviderOrder {
  name: string;
  base_url: string;
  api_key?: string;
  /** Ask it for its models before it is stored. */
  probe: boolean;
}

export const settingsApi = {
  keys: async () => (await get<{ data: ApiKey[] }>(KEYS_PATH)).data,
  createKey: (name: string) => call<NewApiKey>("POST", KEYS_PATH, { name }),
  revokeKey: (id: string) => call<ApiKey>("DELETE", KEYS_PATH + at(id)),
  providers: async () => (await get<Page<Provider>>(PROVIDERS_PATH, { limit: 100 })).data,
  addProvider: (order: ProviderOrder) => call<Provider>("POST", PROVIDERS_PATH, order),
  removeProvider: (id: string) => call<{ deleted: boolean }>("DELETE", PROVIDERS_PATH + at(id)),
  judges: () => get<Judges>("/v1/dashboard/judges"),
  secrets: async () => (await get<Page<SigningSecret>>(SECRETS_PATH, { limit: 100 })).data,
  rotateSecret: () => call<NewSigningSecret>("POST", `${SECRETS_PATH}/rotate`, {}),
  retireSecret: (id: string) => call<SigningSecret>("DELETE", SECRETS_PATH + at(id)),
};
