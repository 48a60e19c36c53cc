/** The typed way to how far the rewards of a job's rows spread. */
import { at, get } from "./http";
import { JOBS_PATH } from "./jobs";
import type { JobVariance, MeasuredSplit } from "./types";

/** Enough for a picture; the figures and the widest are of all rows. */
const DRAWN = 400;

export const jobVariance = (jobId: string, split: MeasuredSplit, step: number) =>
  get<JobVariance>(`${JOBS_PATH}${at(jobId)}/variance`, { split, step, limit: DRAWN });
