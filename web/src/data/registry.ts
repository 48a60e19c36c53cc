/** What the pages ask of registered tools and graders. */
import { useQuery } from "@tanstack/react-query";
import { registryApi } from "../api/registry";

export function useTools() {
  return useQuery({ queryKey: ["tools"], queryFn: registryApi.tools });
}

export function useGraders() {
  return useQuery({ queryKey: ["graders"], queryFn: registryApi.graders });
}
