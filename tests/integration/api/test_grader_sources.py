"""Sources of python graders are checked before anything is made of them, and never in the API's own process."""

import copy
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from rft.testing.loopback import LoopbackEndpoint

SANE: Any = {"type": "python", "source": "def grade(sample, item):\n    return 0.5\n"}
BROKEN: Any = {"type": "python", "source": "def grade(sample, item):\n    return 0.5\nreturn 1\n"}
ENDLESS: Any = {
    "type": "python",
    "source": "".join(f"{' ' * i}try:\n{' ' * i} pass\n{' ' * i}finally:\n" for i in range(90))
    + f"{' ' * 90}pass\ndef grade(sample, item): return 1\n",
}
WORDS = "is not Python: 'return' outside function (line 3)"
Ask = Callable[[Any], Awaitable[Any]]


@pytest.fixture
async def ways(client: AsyncOpenAI, order: dict[str, Any]) -> dict[str, tuple[Ask, str]]:
    """Everything that takes a grader, and what it calls it."""
    job = await client.fine_tuning.jobs.create(**order)
    registered: Any = await client.post("/graders", body={"grader": SANE}, cast_to=object)

    def with_grader(grader: Any) -> dict[str, Any]:
        changed = copy.deepcopy(order)
        changed["method"]["reinforcement"]["grader"] = grader
        return changed

    async def posts(path: str, body: Callable[[Any], Any], grader: Any) -> Any:
        return await client.post(path, body=body(grader), cast_to=object)

    def alone(grader: Any) -> Any:
        return {"grader": grader}

    graders = client.fine_tuning.alpha.graders
    return {
        "validate": (lambda grader: graders.validate(grader=grader), "grader"),
        "run": (lambda grader: graders.run(grader=grader, model_sample="7"), "grader"),
        "job": (
            lambda grader: client.fine_tuning.jobs.create(**with_grader(grader)),
            "method.reinforcement.grader",
        ),
        "rehearsal": (partial(posts, "/rehearsals", with_grader), "method.reinforcement.grader"),
        "registration": (partial(posts, "/graders", alone), "grader"),
        "change": (partial(posts, f"/graders/{registered['id']}", alone), "grader"),
        "regrade": (partial(posts, f"/fine_tuning/jobs/{job.id}/regrade", alone), "grader"),
    }


async def refused(ask: Ask, grader: Any) -> BadRequestError:
    with pytest.raises(BadRequestError) as raised:
        await ask(grader)
    return raised.value


async def test_what_only_the_compiler_refuses_is_refused_wherever_a_grader_is_given(
    ways: dict[str, tuple[Ask, str]],
) -> None:
    multi = {"type": "multi", "graders": {"good": SANE, "bad": BROKEN}, "calculate_output": "good + bad"}
    for way, (ask, param) in ways.items():
        alone, within = await refused(ask, BROKEN), await refused(ask, multi)
        assert (alone.param, alone.code) == (f"{param}.source", "invalid_value"), way
        assert WORDS in alone.message, way
        assert (within.param, within.code) == (f"{param}.graders.bad.source", "invalid_value"), way


async def test_a_sound_source_is_taken_wherever_a_grader_is_given(ways: dict[str, tuple[Ask, str]]) -> None:
    for ask, _ in ways.values():
        assert await ask(SANE)


async def test_what_the_compiler_never_ends_with_is_refused_in_bounded_time(client: AsyncOpenAI) -> None:
    error = await refused(lambda grader: client.fine_tuning.alpha.graders.validate(grader=grader), ENDLESS)

    assert error.param == "grader.source"
    assert "compiled" in error.message


async def test_the_sources_of_a_grader_are_capped_together(client: AsyncOpenAI) -> None:
    long = {**SANE, "source": SANE["source"] + "#" * 200_000}
    parts = {f"part_{number}": long for number in range(2)}
    multi = {"type": "multi", "graders": parts, "calculate_output": "part_0"}

    error = await refused(lambda grader: client.fine_tuning.alpha.graders.validate(grader=grader), multi)

    assert (error.param, error.code) == ("grader.graders.part_1.source", "invalid_value")
    assert "all sources of a grader have 256 kB together" in error.message


async def test_the_apis_own_process_reads_no_source(
    ways: dict[str, tuple[Ask, str]], customer: LoopbackEndpoint
) -> None:
    compiled: list[str] = []
    is_listening = True

    def listen(event: str, arguments: tuple[Any, ...]) -> None:
        if is_listening and event == "compile" and arguments[1] == "<grader>":
            compiled.append(event)

    sys.addaudithook(listen)  # it stays, and hears nothing more once the test is over
    for grader in (SANE, BROKEN):
        for ask, _ in ways.values():
            try:
                await ask(grader)
            except BadRequestError:
                assert grader is BROKEN
    is_listening = False
    assert compiled == []
    assert customer.endpoint.calls, "jobs were ordered in the meantime"
