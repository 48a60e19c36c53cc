"""Whether python graders can grade at all, found out in a process of its own before anybody depends on them.

Reading a long source holds an interpreter up for a second, compiling a hostile one for ever: neither happens in ours.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pydantic import JsonValue

from rft.grader_gateway.builtin.sandbox.child import ChildProcess, SandboxLost
from rft.grader_gateway.builtin.sandbox.pool import Ticket
from rft.grader_gateway.builtin.sandbox.slots import FairSlots, SlotShare

_SLOTS = FairSlots(2)
_WAITING = 64
_WAIT_S = 60.0
"""For a slot and the answer: a caller waits for the reply."""
_CHECK_S = 40.0
"""To start, to read all sources on a busy machine, and the compiler's own limit."""
_MODULE = "rft.grader_gateway.builtin.sandbox.sources"
_THREADS = ThreadPoolExecutor(_WAITING, thread_name_prefix="rft-sources")


class SourcesUnchecked(Exception):
    """No answer in time: this machine has too much to do, or the check itself broke."""


@dataclass(frozen=True, slots=True)
class BadSource:
    """The first source that cannot grade."""

    index: int
    problem: str


async def first_bad_source(sources: Sequence[str], *, share: SlotShare | None = None) -> BadSource | None:
    """What is wrong with the sources of one grader, the compiler's word included. Raises SourcesUnchecked.

    `share`: of the checks at once; without it that of all who name none.
    Where this machine cannot lock up foreign code the compiler is not asked.
    """
    if not sources:
        return None
    ticket = Ticket()
    try:
        async with asyncio.timeout(_WAIT_S):
            said = await asyncio.get_running_loop().run_in_executor(
                _THREADS, _checked, sources, share or SlotShare(""), ticket
            )
    except TimeoutError as error:
        raise SourcesUnchecked("too many sources are being checked") from error
    except SandboxLost as error:
        raise SourcesUnchecked(str(error)) from error
    finally:
        ticket.give_up()
    match said:
        case {"bad": int() as index, "problem": str() as problem}:
            return BadSource(index, problem)
        case {"bad": None}:
            return None
        case {"unchecked": str() as message}:
            raise SourcesUnchecked(message)
        case _:
            raise SourcesUnchecked("the check answered nonsense")


def _checked(sources: Sequence[str], share: SlotShare, ticket: Ticket) -> dict[str, JsonValue]:
    with _SLOTS.slot(share, is_given_up=lambda: ticket.is_given_up) as is_had:
        if not is_had:
            raise SandboxLost("nobody waits for the check")
        process = ChildProcess(_MODULE)
        try:
            with ticket.using(process):
                return process.ask({"sources": list(sources)}, _CHECK_S)
        finally:
            process.close()
