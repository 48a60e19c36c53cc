"""Company reports, page by page, with BM25 search."""

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bm25s

SNIPPET_CHARS = 300


@dataclass(frozen=True, slots=True)
class Page:
    """One page of one annual report."""

    path: str
    text: str


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a `.jsonl` file, or of `.jsonl.gz` where only that exists."""
    packed = path.with_name(path.name + ".gz")
    with path.open(encoding="utf-8") if path.exists() else gzip.open(packed, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def render(report: dict[str, Any]) -> str:
    """The page as text: what stands before the table, the table row by row, what stands after it."""
    table = "\n".join(" | ".join(str(cell) for cell in row) for row in report["table"])
    return f"{report['pre_text']}\n\n{table}\n\n{report['post_text']}"


def words(text: str) -> list[str]:
    """What search compares."""
    return re.findall(r"[a-z0-9]+", text.lower())


class Corpus:
    """Pages by path; search returns one page per call."""

    def __init__(self, directory: Path) -> None:
        self.pages = {
            report["path"]: Page(report["path"], render(report)) for report in read_jsonl(directory / "reports.jsonl")
        }
        self.paths = sorted(self.pages)
        self.index = bm25s.BM25()
        self.index.index([words(f"{p} {self.pages[p].text}") for p in self.paths], show_progress=False)

    def search(self, query: str, page: int) -> str:
        """The `page`-th best page for the query (1 is the best): its path and where the query's words stand."""
        wanted = words(query)
        if not wanted or not 1 <= page <= len(self.paths):
            return "no results"
        hits, scores = self.index.retrieve([wanted], k=page, show_progress=False)
        if scores[0][page - 1] <= 0:
            return "no results"
        found = self.pages[self.paths[int(hits[0][page - 1])]]
        return f"{found.path}\n...{self._snippet(found.text, set(wanted))}..."

    def _snippet(self, text: str, wanted: set[str]) -> str:
        starts = range(0, max(1, len(text) - SNIPPET_CHARS), SNIPPET_CHARS // 2)
        best = max(starts, key=lambda start: len(wanted & set(words(text[start : start + SNIPPET_CHARS]))))
        return " ".join(text[best : best + SNIPPET_CHARS].split())

    def list(self, path: str) -> str:
        """What lies under a path: companies, their years, the pages of a year."""
        prefix = path.strip("/")
        parts = prefix.split("/") if prefix else []
        below = sorted({p.split("/")[len(parts)] for p in self.paths if not prefix or p.startswith(prefix + "/")})
        return "\n".join(below) if below else f"no such folder: {path}"

    def cat(self, path: str) -> str:
        """A page's whole text."""
        page = self.pages.get(path.strip("/"))
        return page.text if page else f"no such file: {path}"
