"""Runs that are held, in virtual time."""

from collections.abc import Callable, Coroutine
from typing import Any

from rft.core.events import HoldBegan, HoldEnded
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.spec import HoldRule
from rft.egress.breaker import BreakerState
from rft.egress.limits import BreakerChange
from rft.egress.reply import AttemptFailure
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.hold import (
    FailingEndpoint,
    Hold,
)
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock

RULE = HoldRule(max_s=100.0)
Told = list[tuple[float, HoldBegan | HoldEnded]]


def change(state: BreakerState, endpoint: str = "http://a/tool") -> BreakerChange:
    return BreakerChange(endpoint, state, AttemptFailure(FailureCode.SERVER_ERROR, "answered 503"))


def blame(broken: BreakerChange) -> FailingEndpoint:
    return FailingEndpoint(Stage.TOOL, f"tool {broken.endpoint!r}", "answered 503")


def held_run(
    script: Callable[[Hold, Deadlines], Coroutine[Any, Any, None]], *, rule: HoldRule = RULE
) -> tuple[Told, Hold]:
    """What a round of rollouts tells while the script runs in it."""
    told: Told = []

    async def main() -> Hold:
        deadlines = Deadlines()
        hold = Hold(rule, tell=lambda event: told.append((virtual_clock(), event)), blame=blame, deadlines=deadlines)
        async with hold.round(3):
            await script(hold, deadlines)
        return hold

    return told, run_in_virtual_time(main())


def failure(code: FailureCode, name: str | None = "search", stage: Stage = Stage.TOOL) -> Failure:
    return Failure(stage=stage, code=code, message=f"{name} is down", endpoint=name)
