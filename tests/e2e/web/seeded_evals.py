"""Evals and runs in the database of a served dashboard, without a worker or a model."""

import json
import random
import uuid
from dataclasses import dataclass
from typing import Any

from rft.core.base import JsonObject
from rft.core.grade import Grade
from rft.platform.evals.output_item_repository import ItemStatus, ModelUsage, NewOutputItem, OutputItemRepository
from rft.platform.evals.reconciling import figures_of
from rft.platform.evals.repository import EvalRepository
from rft.platform.evals.run_repository import EVAL_RUNS, NewRun, RunEnd, RunRepository
from rft.platform.evals.verdicts import Criterion, NoVerdict, verdicts
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.records import JobError
from rft.platform.store.database import Database

CRITERIA = (
    Criterion("exact-1", "string_check", 1.0, names_sample=True),
    Criterion("helpful-1", "endpoint", 0.5, names_sample=True),
)
_SHOWN: tuple[JsonObject, ...] = (
    {
        "id": "exact-1",
        "name": "exact",
        "type": "string_check",
        "operation": "eq",
        "input": "{{sample.output_text}}",
        "reference": "{{item.answer}}",
    },
    {"id": "helpful-1", "name": "helpful", "type": "endpoint", "url": "http://127.0.0.1:9301/grade"},
)
_ITEM_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"question": {"type": "string"}, "answer": {"type": "string"}},
}
ROWS = 12


@dataclass(frozen=True, slots=True)
class SeededEval:
    """An eval and the database that it lies in."""

    database: Database
    id: str

    @classmethod
    async def make(cls, database: Database, name: str = "Arithmetic") -> "SeededEval":
        """With two criteria, without runs."""
        eval_id = f"eval_{uuid.uuid4().hex}"
        async with database.transaction() as connection:
            await EvalRepository(connection).insert(
                eval_id,
                name=name,
                metadata=None,
                data_source_config={
                    "type": "custom",
                    "schema": {"type": "object", "properties": {"item": _ITEM_SCHEMA, "sample": {}}},
                },
                testing_criteria=list(_SHOWN),
                sealed=b"",
            )
        return cls(database, eval_id)

    async def run(
        self, name: str, *, skill: float, samples: int = 4, is_going: bool = False, model: str = "starter"
    ) -> str:
        """A run whose samples pass as often as `skill` says, later rows less; one sample is without a verdict."""
        async with self.database.transaction() as connection:
            row = await RunRepository(connection).insert(_order(self.id, name, model, samples))
            taken = await RunRepository(connection).take(row.id, owner="here/1/a", ttl_s=600.0, slots=100)
        assert taken is not None
        _, lease = taken
        async with self.database.transaction() as connection:
            await RunRepository(connection).count_rows(lease, ROWS)
            for item in _items(name, skill, samples, rows=ROWS // 2 if is_going else ROWS):
                await OutputItemRepository(connection).add(lease, item)
        if not is_going:
            await self.end(lease)
        return row.id

    async def end(self, lease: Lease, how: RunEnd | None = None) -> None:
        """As a worker does that is done."""
        async with self.database.transaction() as connection:
            figures = await figures_of(connection, self.id, lease.id)
            await RunRepository(connection).end(lease, how or RunEnd("completed"), figures)

    async def fail(self, run_id: str) -> None:
        """End a run that goes, as a worker does whose tool was never there: no verdict of its items holds."""
        error = JobError(code="tool_not_found", message="There is no tool 'search'.")
        async with self.database.transaction() as connection:
            await connection.execute(
                "update eval_output_items set tools_not_found = '{search}' where run_id = %s", (run_id,)
            )
            cursor = await connection.execute("select lease_token from eval_runs where id = %s", (run_id,))
            (token,) = await cursor.fetchone() or (0,)
            lease = Lease(EVAL_RUNS, run_id, token, "here/1/a")
            told = NoVerdict(error.code, error.message, fault="endpoint", stage="tool")
            await OutputItemRepository(connection).withdraw(
                lease,
                tool="search",
                error={"code": error.code, "message": error.message},
                results=verdicts(CRITERIA, [told] * len(CRITERIA)).results,
            )
        await self.end(lease, RunEnd("failed", error))


def _order(eval_id: str, name: str, model: str, samples: int) -> NewRun:
    template = [{"role": "developer", "content": "Answer briefly."}, {"role": "user", "content": "{{item.question}}"}]
    source: Any = {
        "type": "completions",
        "model": model,
        "source": {"type": "file_id", "id": "file-none"},
        "input_messages": {"type": "template", "template": template},
        "sampling_params": {"temperature": 0.7},
    }
    return NewRun(
        id=f"evalrun_{uuid.uuid4().hex}",
        eval_id=eval_id,
        name=name,
        metadata=None,
        model=model,
        data_source=source,
        file_id=None,
        sealed=None,
        samples_per_row=samples,
        seed=1,
    )


def _items(name: str, skill: float, samples: int, *, rows: int) -> list[NewOutputItem]:
    drawn = random.Random(name)
    return [
        _item(row, sample, is_right=drawn.random() < skill * (1.6 - row / rows), is_lost=(row, sample) == (2, 0))
        for row in range(rows)
        for sample in range(samples)
    ]


def _item(row: int, sample: int, *, is_right: bool, is_lost: bool) -> NewOutputItem:
    said = str(row + 3) if is_right else "I cannot tell, <b>sorry</b>"
    score = 0.9 if is_right else 0.2
    asked = json.dumps({"messages": [{"role": "user", "content": f"How helpful is the answer to row {row}?"}]})
    replied = json.dumps({"score": score, "why": f"row {row} read"})
    helpful = Grade(reward=score, grader="helpful", request=asked, reply=replied)
    lost = NoVerdict("server_error", "HTTP 500 of http://127.0.0.1:9301/grade", fault="endpoint", stage="grader")
    told = verdicts(CRITERIA, [Grade(reward=float(is_right), grader="exact"), lost if is_lost else helpful])
    status: ItemStatus = told.status
    return NewOutputItem(
        id=f"outputitem_{uuid.uuid4().hex}",
        row_index=row,
        sample_index=sample,
        status=status,
        item={"question": f"{row} + 3?", "answer": str(row + 3)},
        sample={
            "model": "starter",
            "input": [{"role": "user", "content": f"{row} + 3?"}],
            "output": [{"role": "assistant", "content": said}],
            "finish_reason": "stop",
            "error": None,
            "usage": None,
        },
        results=told.results,
        scores=told.scores,
        passes=told.passes,
        failure_code=told.failure_code,
        usage={"starter": ModelUsage(prompt_tokens=40, completion_tokens=12, calls=1)},
        prompt_tokens=40,
        completion_tokens=12,
        tool_calls=1,
        latency_s=0.4 + row / 10,
    )
