/** What the pages ask of models, and talking to one. */
import { useMutation, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { chat, type ChatOrder } from "../api/chat";
import { modelsApi } from "../api/models";
import { beginExchange, type Exchange, history, withEvent } from "../lib/chat";

const MODELS = ["models"];

export function useModels() {
  return useQuery({ queryKey: MODELS, queryFn: modelsApi.list });
}

const lookAt = (id: string) => ({
  queryKey: [...MODELS, id],
  queryFn: () => modelsApi.get(id),
  staleTime: Number.POSITIVE_INFINITY,
});

/** A look at a base model's files; asked for when it is wanted, as it takes seconds. */
export function useBaseModel(id: string, isWanted: boolean) {
  return useQuery({ ...lookAt(id), enabled: isWanted });
}

/** A look at each of these, one after the other: each takes a process of the platform's host some seconds. */
export function useBaseModels(ids: readonly string[]) {
  const cache = useQueryClient();
  const isSettled = (id: string) => (cache.getQueryState(lookAt(id).queryKey)?.status ?? "pending") !== "pending";
  return useQueries({ queries: ids.map((id, at) => ({ ...lookAt(id), enabled: ids.slice(0, at).every(isSettled) })) });
}

export function useDeleteModel() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: modelsApi.remove,
    onSuccess: () => cache.invalidateQueries({ queryKey: MODELS }),
  });
}

/** A conversation: what is said goes out with all that went well before it. */
export function useChat(order: Omit<ChatOrder, "messages">, system: string) {
  const [exchanges, setExchanges] = useState<readonly Exchange[]>([]);
  const stopping = useRef<AbortController>(null);
  // Nobody hears the rest: the model is free again, and no tool is called for it.
  useEffect(() => () => stopping.current?.abort(), []);
  const talking = useMutation({
    mutationFn: (said: string) => {
      const signal = (stopping.current = new AbortController()).signal;
      const messages = history(system, exchanges, said);
      setExchanges([...exchanges, beginExchange(said)]);
      return chat(
        { ...order, messages },
        (event) => setExchanges((old) => changeLast(old, (one) => withEvent(one, event))),
        signal,
      );
    },
    onError: (error) => {
      const failure = error.name === "AbortError" ? "stopped" : error.message;
      setExchanges((old) => changeLast(old, (one) => ({ ...one, failure })));
    },
  });
  return {
    exchanges,
    isBusy: talking.isPending,
    say: (said: string) => talking.mutate(said),
    stop: () => stopping.current?.abort(),
    clear: () => setExchanges([]),
  };
}

function changeLast(exchanges: readonly Exchange[], change: (one: Exchange) => Exchange): Exchange[] {
  return exchanges.map((one, i) => (i === exchanges.length - 1 ? change(one) : one));
}
