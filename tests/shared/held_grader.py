"""A customer's endpoint whose grades come when a test lets them."""

import asyncio

from rft.testing.endpoint import GRADER_PATH, ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.faults import Fault, HttpAnswer, ReceivedCall


class HeldGrader(ScriptedEndpoint):
    """Holds every grade once `hold` was called, until `let_go`."""

    def __init__(self, tools: ScriptedTools | None = None, grader: ScriptedGrader | None = None) -> None:
        super().__init__(tools, grader)
        self.is_asked = asyncio.Event()
        """Somebody waits for a grade."""
        self._may_answer = asyncio.Event()
        self._may_answer.set()

    def hold(self) -> None:
        """From now on."""
        self.is_asked.clear()
        self._may_answer.clear()

    def let_go(self) -> None:
        """Those who wait get theirs."""
        self._may_answer.set()

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        """The reply, of a grade when it may come."""
        if call.body and call.path.startswith(GRADER_PATH):
            self.is_asked.set()
            await self._may_answer.wait()
        return await super().answer(call)
