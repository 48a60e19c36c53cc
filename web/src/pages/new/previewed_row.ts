import { useState } from "react";
import type { PreviewedRow } from "../../components/order/previewed_row";
import { useFirstLines } from "../../data/files";
import { isObject, type Json, type JsonObject } from "../../lib/draft";
import { parseExact } from "../../api/exact_json";

const ROWS = 20;

/** Rows of the training file to try templates and graders on. */
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
    const row = parseExact(line) as Json;
    return isObject(row) ? [row] : [];
  } catch {
    return [];
  }
}
