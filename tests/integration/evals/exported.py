"""An export of the hosted service, as `examples/evals_export.py` writes it."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ITEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"question": {"type": "string"}, "answer": {"type": "string"}},
    "required": ["question", "answer"],
}
UUID = "0b8f3f0e-4f3a-4d59-9a4c-2b1d54a9f7aa"
EXACT: dict[str, Any] = {
    "type": "string_check",
    "id": f"exact-{UUID}",
    "name": f"exact-{UUID}",
    "input": "{{sample.output_text}}",
    "reference": "{{item.answer}}",
    "operation": "eq",
}
CUSTOM: dict[str, Any] = {
    "type": "custom",
    "schema": {"type": "object", "properties": {"item": ITEM_SCHEMA, "sample": {"type": "object"}}},
}


def an_eval(number: int, *criteria: dict[str, Any], config: dict[str, Any] | None = None) -> dict[str, Any]:
    """As it was answered."""
    return {
        "object": "eval",
        "id": f"eval_{number}",
        "name": f"Arithmetic {number}",
        "created_at": 1,
        "metadata": {"team": "a"},
        "data_source_config": CUSTOM if config is None else config,
        "testing_criteria": list(criteria or (EXACT,)),
    }


def a_run(number: int, data_source: dict[str, Any], *, passed: int, failed: int, **more: Any) -> dict[str, Any]:
    """As it was answered; its graders bear names with ids behind them."""
    return {
        "object": "eval.run",
        "id": f"evalrun_{number}",
        "name": f"run {number}",
        "status": "completed",
        "metadata": None,
        "data_source": data_source,
        "result_counts": {"total": passed + failed, "passed": passed, "failed": failed, "errored": 0},
        "per_testing_criteria_results": [
            {"testing_criteria": f"exact-{UUID}", "passed": passed, "failed": failed}
        ],
        **more,
    }  # fmt: skip


def an_item(number: int, answer: str, said: str | None) -> dict[str, Any]:
    """An output item, whose model said something or broke."""
    output = [] if said is None else [{"role": "assistant", "content": said}]
    error = {"code": "rate_limit", "message": "slow down"} if said is None else {"code": "", "message": ""}
    sample = {
        "input": [{"role": "user", "content": f"{answer} + 0?"}],
        "output": output,
        "finish_reason": "stop",
        "error": error,
        "model": "hosted-1",
    }
    item = {"question": f"{answer} + 0?", "answer": answer}
    return {"id": f"outputitem_{number}", "datasource_item": item, "datasource_item_id": number, "sample": sample}


class Exported:
    """A folder that fills."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[str, dict[str, Any]] = {}
        self._evals: dict[str, list[str]] = {}
        self._gone: dict[str, str] = {}

    def add_eval(self, document: dict[str, Any]) -> None:
        """An eval, the owner of the runs that follow."""
        self._evals[document["id"]] = []
        self._write(f"evals/{document['id']}.json", json.dumps(document).encode())

    def add_run(self, document: dict[str, Any], items: Sequence[dict[str, Any]]) -> None:
        """A run of the last eval."""
        self._evals[list(self._evals)[-1]].append(document["id"])
        self._write(f"runs/{document['id']}.json", json.dumps(document).encode())
        lines = "".join(json.dumps(item) + "\n" for item in items)
        self._write(f"items/{document['id']}.jsonl", lines.encode())

    def add_file(self, file_id: str, content: bytes, *, name: str = "rows.jsonl") -> None:
        """A file that a run names."""
        self._write(f"files/{file_id}", content)
        self._write(f"files/{file_id}.json", json.dumps({"id": file_id, "filename": name}).encode())

    def add_gone(self, eval_id: str) -> None:
        """An eval that was deleted while it was exported."""
        self._evals[eval_id], self._gone[eval_id] = [], "404 no such eval"

    def note_gone(self, thing_id: str) -> None:
        """An eval or run that was deleted after some of it, or all, had come."""
        self._gone[thing_id] = "404 no such thing"

    def close(self, *, is_complete: bool = True) -> Path:
        """With its manifest."""
        manifest = {
            "format": "evals-export/1",
            "is_complete": is_complete,
            "evals": self._evals,
            "gone": self._gone,
            "refused": {},
            "failed": {},
            "files": self._files,
        }
        (self.root / "manifest.json").write_text(json.dumps(manifest))
        return self.root

    def _write(self, path: str, content: bytes) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(content)
        self._files[path] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
