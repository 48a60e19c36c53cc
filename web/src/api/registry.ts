/** The typed way to registered tools and graders. */
import { allPages, get, type Page } from "./http";
import type { RegisteredGrader, RegisteredTool } from "./types";

export const registryApi = {
  tools: () =>
    allPages<RegisteredTool>(
      (after) => get<Page<RegisteredTool>>("/v1/tools", { after, limit: 100 }),
      (tool) => tool.id,
    ),
  graders: () =>
    allPages<RegisteredGrader>(
      (after) => get<Page<RegisteredGrader>>("/v1/graders", { after, limit: 100 }),
      (grader) => grader.id,
    ),
};
