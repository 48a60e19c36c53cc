import { createContext, useState } from "react";
import { useFirstLines } from "../../data/files";
import { isObject, type Json, type JsonObject } from "../../lib/draft";

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

const ROWS = 20;

export function usePreviewedRow(fileId: string): PreviewedRow {
  const lines = useFirstLines(fileId || null, ROWS);
  const [index, onIndex] = useState(0);
  const [answer, onAnswer] = useState("");
  const rows = (lines.data ?? []).flatMap(asRow);
  const at = Math.min(index, Math.max(0, rows.length - 1));
  return {
    item: rows[at] ?? null,
    index: at,
    count: rows.length,
    isLoading: lines.isLoading,
    error: lines.error,
    answer,
    onIndex,
    onAnswer,
  };
}

function asRow(line: string): JsonObject[] {
  try {
    const row = JSON.parse(line) as Json;
    return isObject(row) ? [row] : [];
  } catch {
    return [];
  }
}

export const PreviewedRowContext = createContext<PreviewedRow | null>(null);
