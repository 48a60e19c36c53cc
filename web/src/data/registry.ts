/** What the pages ask of registered tools. */
import { useQuery } from "@tanstack/react-query";
import { registryApi } from "../api/registry";

export function useTools() {
  return useQuery({ queryKey: ["tools"], queryFn: registryApi.tools });
}
