import { createContext } from "react";
import type { JsonObject } from "../../lib/draft";

/** A row of the training file, and an answer to it, on which templates and graders are tried. */
export interface PreviewedRow {
  /** Null: there is none, or none yet. */
  item: JsonObject | null;
  index: number;
  /** Rows to choose from: the first ones of the file. */
  count: number;
  isLoading: boolean;
  error: Error | null;
  answer: string;
  onIndex(index: number): void;
  onAnswer(answer: string): void;
}

export const PreviewedRowContext = createContext<PreviewedRow | null>(null);
