/** What the settings page asks, and what it changes. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { settingsApi } from "../api/settings";

const KEYS = ["keys"];
const PROVIDERS = ["providers"];
const SECRETS = ["signing-secrets"];

export const useKeys = () => useQuery({ queryKey: KEYS, queryFn: settingsApi.keys });
export const useProviders = () => useQuery({ queryKey: PROVIDERS, queryFn: settingsApi.providers });
export const useJudges = () => useQuery({ queryKey: ["judges"], queryFn: settingsApi.judges });
export const useSecrets = () => useQuery({ queryKey: SECRETS, queryFn: settingsApi.secrets });

export const useCreateKey = () => useChange(settingsApi.createKey, KEYS);
export const useRevokeKey = () => useChange(settingsApi.revokeKey, KEYS);
export const useAddProvider = () => useChange(settingsApi.addProvider, PROVIDERS);
export const useRemoveProvider = () => useChange(settingsApi.removeProvider, PROVIDERS);
export const useRotateSecret = () => useChange(settingsApi.rotateSecret, SECRETS);
export const useRetireSecret = () => useChange(settingsApi.retireSecret, SECRETS);

/** A change after which the list is asked for again. */
function useChange<Order, Reply>(mutationFn: (order: Order) => Promise<Reply>, list: readonly string[]) {
  const cache = useQueryClient();
  return useMutation({ mutationFn, onSuccess: () => cache.invalidateQueries({ queryKey: list }) });
}
