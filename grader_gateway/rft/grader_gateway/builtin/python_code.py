"""`python`: the customer's `grade(sample, item) -> float`, run where it can do nothing but compute."""

import asyncio
import os

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import RUNTIME_ERROR, Grade
from rft.core.graders import PythonGrader
from rft.grader_gateway.builtin.guarded import NoScore, Score, graded, no_score
from rft.grader_gateway.builtin.sandbox.pool import SandboxPool, Ticket
from rft.grader_gateway.builtin.sandbox.process import SandboxSetup
from rft.grader_gateway.builtin.sandbox.slots import SlotShare
from rft.grader_gateway.contract import to_item, to_sample

MAX_TIMEOUT_S = 120.0
MEMORY_BYTES = 2 * 1024**3
_MAX_PROCESSES = 4
_DETAILS_CHARS = 2_000


class PythonCode:
    """The python grader of one job. Its source was checked by whoever opens it; what is wrong fails every grade."""

    def __init__(
        self,
        spec: PythonGrader,
        *,
        memory_bytes: int = MEMORY_BYTES,
        processes: int | None = None,
        has_file_rules: bool = True,
        share: SlotShare | None = None,
    ) -> None:
        self._spec = spec
        timeout_s = min(spec.timeout_s, MAX_TIMEOUT_S)
        self._pool = SandboxPool(
            SandboxSetup(spec.source, timeout_s, memory_bytes, has_file_rules=has_file_rules),
            processes=processes or min(_MAX_PROCESSES, os.cpu_count() or 1),
            share=share or SlotShare(owner=""),
        )

    async def grade(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        """What the code returned. Where it returned nothing that is a number, the grade is the contract's.

        A failure is what this machine did, a source that cannot be compiled, and a number that is no score.
        """
        request: dict[str, JsonValue] = {"sample": to_sample(trace), "item": to_item(item)}
        return await graded(
            self._spec.name, trace_id, lambda: self._run(request), invalid_grade=self._spec.grade_of_invalid
        )

    async def aclose(self) -> None:
        """End its processes."""
        await asyncio.to_thread(self._pool.close)

    async def _run(self, request: dict[str, JsonValue]) -> Score | NoScore | Failure:
        ticket = Ticket()
        running = asyncio.get_running_loop().run_in_executor(self._pool.threads, self._pool.grade, request, ticket)
        try:
            verdict = await running
        except asyncio.CancelledError:
            ticket.give_up()
            raise
        match verdict:
            case {"score": float() as score}:
                return Score(score, elapsed_s=ticket.elapsed_s)
            case {"error": str() as message, "traceback": str() as shown}:
                return NoScore(RUNTIME_ERROR, _shown(f"{message}\n{shown}"), ticket.elapsed_s)
            case {"error": str() as message}:
                return NoScore(RUNTIME_ERROR, _shown(message), ticket.elapsed_s)
            case {"unusable": str() as message}:
                return no_score(self._spec.name, FailureCode.GRADER_ERROR, _shown(message), detail=RUNTIME_ERROR)
            case {"refused": str() as message}:
                raise RuntimeError(f"python graders cannot be held safely on this machine: {message}")
            case _:
                raise RuntimeError("the sandbox answered nonsense")


def _shown(message: str) -> str:
    """What foreign code said, fit for any place where it may be stored and shown."""
    text = "".join(sign if sign.isprintable() or sign == "\n" else "\ufffd" for sign in message)
    if len(text) <= _DETAILS_CHARS:
        return text
    half = _DETAILS_CHARS // 2
    return f"{text[:half]}\n[...]\n{text[-half:]}"
