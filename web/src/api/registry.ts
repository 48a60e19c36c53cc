/** The typed way to registered tools. */
import { allPages, get, type Page } from "./http";
import type { RegisteredTool } from "./types";

export const registryApi = {
  tools: () =>
    allPages<RegisteredTool>(
      (after) => get<Page<RegisteredTool>>("/v1/tools", { after, limit: 100 }),
      (tool) => tool.id,
    ),
};
