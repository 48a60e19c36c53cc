"""Filters, orders, searches and neighbours of a job's rollouts, against the same worked out in Python."""

import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import psycopg
import pytest

from rft.core.events import RolloutDone, RunStarted
from rft.core.failure import FAULTS, Failure, FailureCode, Fault, Stage
from rft.core.grade import Grade
from rft.core.messages import Message, Role
from rft.core.rollout import RolloutKey, Split, StopReason
from rft.platform.api.key_repository import create_key
from rft.platform.rollouts import repository
from rft.testing.trace_ids import trace_id_at
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.workbench import Workbench
from tests.shared.running_api import ReceivedMessages, Served
from tests.shared.train_events import logged

STEPS = 70
"""More than are looked through for words at once."""
WORDS = ("margin", "marginal", "Größe", "lease_rate", "10-K", "48,512", "ACME")
CODES = (FailureCode.TIMEOUT, FailureCode.SERVER_ERROR, FailureCode.SAMPLER_ERROR)


def rollouts_of(job_id: str, seed: int = 1) -> list[RolloutDone]:
    """A few in each step, as different as they can be; many are equal in what they are sorted by.

    Every tenth step takes its rows in three epochs at once, as a step does that has fewer rows than its batch.
    """
    rng = random.Random(seed)
    keys = [
        RolloutKey(job_id=job_id, job_seed=1, split=split, step=step, epoch=epoch, row_index=row, index=index)
        for step in range(STEPS)
        for epoch in range(3 if step % 10 == 0 else 1)
        for split in (Split.TRAIN, *((Split.VALID,) if step % 5 == 0 else ()))
        for row in (step % 3, 7)
        for index in range(2)
    ]
    rng.shuffle(keys)
    return [rollout_at(key, rng) for key in keys]


def rollout_at(key: RolloutKey, rng: random.Random) -> RolloutDone:
    code = rng.choice(CODES)
    failure = Failure(stage=Stage.TOOL, code=code, message="no")
    is_failed = rng.random() < 0.2
    prompt = Message(role=Role.USER, content=f"Row {key.row_index}: " + " ".join(rng.choices(WORDS, k=2)))
    answer = Message(role=Role.ASSISTANT, content=f"In step{key.step} it was " + rng.choice(WORDS) + ".")
    return RolloutDone(
        key=key,
        trace_id=trace_id_at(key),
        policy_version=key.step,
        outcome=failure if is_failed else Grade(reward=rng.choice((0.0, 0.25, 0.5, 1.0)), grader="judge"),
        stop_reason=None if is_failed else rng.choice(tuple(StopReason)),
        messages=(Message(role=Role.SYSTEM, content="Be brief about nothing."), prompt, answer),
        tool_calls={name: 1 for name in ("search", "cat", "list") if rng.random() < 0.4},
        tool_errors={},
        completion_tokens=rng.choice((10, 20, 30)),
        turns=1,
        duration_s=rng.choice((0.5, 1.5)),
        sampling_s=0.1,
        tools_s=0.1,
        grading_s=0.1,
    )


@pytest.fixture
async def rollouts(bench: Workbench) -> list[RolloutDone]:
    """Those of a running job, stored some at a time."""
    ingest = await leased(bench)
    made = rollouts_of(ingest.lease.id)
    await store(bench, ingest, logged([RunStarted(resumed_from_step=None, total_steps=STEPS, pid=1)]))
    for first in range(0, len(made), 50):
        await store(bench, ingest, logged(made[first : first + 50], after=1 + first))
    return made


@pytest.fixture
async def http(bench: Workbench, rollouts: list[RolloutDone]) -> AsyncIterator[httpx.AsyncClient]:
    """A caller of the job's rollouts."""
    async with await psycopg.AsyncConnection.connect(bench.database_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    with Served(bench.settings, ReceivedMessages()) as port:
        url = f"http://127.0.0.1:{port}/v1/fine_tuning/jobs/{rollouts[0].key.job_id}"
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
            yield client


Matches = Callable[[RolloutDone], bool]


def _reward(done: RolloutDone) -> float | None:
    return done.outcome.reward if isinstance(done.outcome, Grade) else None


def _fault(done: RolloutDone) -> Fault | None:
    return FAULTS[done.outcome.code] if isinstance(done.outcome, Failure) else None


def _text(done: RolloutDone) -> str:
    return "\n".join(message.content for message in done.messages[1:]).lower()


def _has(*terms: str) -> Matches:
    def matches(done: RolloutDone) -> bool:
        there = "".join(c if c.isalnum() else " " for c in _text(done)).split()
        return all(any(w.startswith(x[:-1]) if x.endswith("*") else w == x for w in there) for x in terms)

    return matches


FILTERS: tuple[tuple[dict[str, str], Matches], ...] = (
    ({}, lambda done: True),
    ({"split": "valid"}, lambda done: done.key.split is Split.VALID),
    ({"from_step": "60", "to_step": "64"}, lambda done: 60 <= done.key.step <= 64),
    ({"row_index": "7", "step": "5"}, lambda done: done.key.row_index == 7 and done.key.step == 5),
    ({"outcome": "failed"}, lambda done: _reward(done) is None),
    ({"min_reward": "0.25", "max_reward": "0.5"}, lambda done: 0.25 <= (_reward(done) or 0) <= 0.5),
    ({"stop_reason": "max_turns"}, lambda done: done.stop_reason is StopReason.MAX_TURNS),
    ({"fault": "platform"}, lambda done: _fault(done) is Fault.PLATFORM),
    ({"failure_code": "timeout"}, lambda done: isinstance(done.outcome, Failure) and done.outcome.code == "timeout"),
    ({"tool": "cat", "split": "train"}, lambda done: "cat" in done.tool_calls and done.key.split is Split.TRAIN),
    ({"min_tokens": "20", "max_tokens": "20"}, lambda done: done.completion_tokens == 20),
    ({"max_duration_s": "1"}, lambda done: done.duration_s <= 1),
    ({"q": "Margin"}, _has("margin")),
    ({"q": "margin*", "outcome": "graded"}, lambda done: _has("margin*")(done) and _reward(done) is not None),
    ({"q": "größe 48,512"}, _has("größe", "48", "512")),
    ({"q": "step33"}, lambda done: done.key.step == 33),
    ({"q": "k acme", "from_step": "20", "to_step": "50"}, lambda d: _has("k", "acme")(d) and 20 <= d.key.step <= 50),
    ({"contains": "ARGINA", "step": "9"}, lambda done: "argina" in _text(done) and done.key.step == 9),
)
ORDERS = (
    {},
    {"order": "asc"},
    {"sort": "reward"},
    {"sort": "reward", "order": "asc"},
    {"sort": "completion_tokens", "order": "asc"},
    {"sort": "tool_calls"},
)


def in_order(rollouts: list[RolloutDone], order: dict[str, str]) -> list[str]:
    """Ids as a list has them."""

    def place(done: RolloutDone) -> tuple[Any, ...]:
        key = done.key
        return (-key.step, key.split, key.row_index, key.index, key.attempt, done.trace_id)

    newest = sorted(rollouts, key=place)
    sign = 1 if order.get("order") == "asc" else -1
    match order.get("sort"):
        case "reward":
            newest.sort(key=lambda done: (_reward(done) is None, sign * (_reward(done) or 0)))
        case "completion_tokens":
            newest.sort(key=lambda done: sign * done.completion_tokens)
        case "tool_calls":
            newest.sort(key=lambda done: sign * sum(done.tool_calls.values()))
        case _:
            newest = newest[::-1] if sign == 1 else newest
    return [done.trace_id for done in newest]


async def pages(http: httpx.AsyncClient, query: dict[str, str], *, limit: int = 60) -> list[str]:
    """All ids of a list, some at a time."""
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = (await http.get("/rollouts", params={**query, **after, "limit": str(limit)})).raise_for_status().json()
        found += [rollout["id"] for rollout in page["data"]]
        assert len(set(found)) == len(found), "a rollout is listed twice"
        if not page["has_more"]:
            return found
        after = {"after": page["last_id"]}


async def test_every_filter_in_every_order(rollouts: list[RolloutDone], http: httpx.AsyncClient) -> None:
    for number, (query, matches) in enumerate(FILTERS):
        wanted = [done for done in rollouts if matches(done)]
        assert 0 < len(wanted) < len(rollouts) or not query, query
        for order in (ORDERS[0], ORDERS[1 + number % 5], ORDERS[1 + (number + 2) % 5]):
            assert await pages(http, query | order) == in_order(wanted, order), (query, order)


async def test_neighbours_walk_the_list_to_both_ends(rollouts: list[RolloutDone], http: httpx.AsyncClient) -> None:
    for (query, matches), order in ((FILTERS[4], ORDERS[3]), (FILTERS[12], ORDERS[1]), (FILTERS[1], ORDERS[0])):
        listed = in_order([done for done in rollouts if matches(done)], order)
        for at in (0, 1, len(listed) // 2, len(listed) - 1):
            reply = await http.get(f"/rollouts/{listed[at]}/neighbours", params=query | order)
            found = reply.raise_for_status().json()
            beside = [found[side] and found[side]["id"] for side in ("previous", "next")]
            assert beside == [listed[at - 1] if at else None, listed[at + 1] if at + 1 < len(listed) else None]


@pytest.mark.parametrize("order", ORDERS)
async def test_a_row_that_a_step_has_in_several_epochs_is_listed_once_for_each(
    rollouts: list[RolloutDone], http: httpx.AsyncClient, order: dict[str, str]
) -> None:
    for query, least in (({}, None), ({"min_reward": "0.5"}, 0.5), ({"q": "step10", "min_reward": "0.25"}, 0.25)):
        found = [done for done in rollouts if done.key.step == 10 and (least is None or (_reward(done) or 0) >= least)]
        listed, asked = in_order(found, order), {**query, **order, "step": "10"}
        assert await pages(http, asked, limit=1) == listed
        assert await pages(http, asked, limit=5) == listed
        for at, trace_id in enumerate(listed):
            beside = (await http.get(f"/rollouts/{trace_id}/neighbours", params=asked)).raise_for_status().json()
            assert [beside[side] and beside[side]["id"] for side in ("previous", "next")] == [
                listed[at - 1] if at else None,
                listed[at + 1] if at + 1 < len(listed) else None,
            ]


async def test_a_list_shows_how_prompt_and_answer_begin(rollouts: list[RolloutDone], http: httpx.AsyncClient) -> None:
    by_id = {done.trace_id: done for done in rollouts}
    for shown in (await http.get("/rollouts", params={"limit": "5"})).json()["data"]:
        said = [message.content for message in by_id[shown["id"]].messages]
        assert [shown["prompt"], shown["answer"]] == said[1:]


async def test_a_hostile_conversation_is_stored_found_and_cut(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    key = RolloutKey(job_id=job_id, job_seed=1, split=Split.TRAIN, step=1, epoch=0, row_index=0, index=0)
    line = "<script>alert(1)</script> \x1b[31m \u202e \x00 " + "x" * 1_000_000
    long = " ".join(f"word{n}" for n in range(5000))
    hostile = rollout_at(key, random.Random(1)).model_copy(
        update={
            "messages": (Message(role=Role.USER, content=long), Message(role=Role.ASSISTANT, content=line)),
            "tool_calls": {f"tool {n} '\\": 1 for n in range(100)},
        }
    )
    await store(bench, ingest, logged([RunStarted(resumed_from_step=None, total_steps=1, pid=1), hostile]))
    async with await psycopg.AsyncConnection.connect(bench.database_url, autocommit=True) as connection:
        api_key = await create_key(connection, "tests")
    with Served(bench.settings, ReceivedMessages()) as port:
        url = f"http://127.0.0.1:{port}/v1/fine_tuning/jobs/{job_id}"
        async with httpx.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {api_key}"}, timeout=60.0
        ) as client:
            for query in ({"q": "script word7"}, {"tool": "tool 99 '\\"}, {"contains": "</SCRIPT>", "step": "1"}):
                (found,) = (await client.get("/rollouts", params=query)).raise_for_status().json()["data"]
                assert (len(found["prompt"]), len(found["answer"])) == (300, 300), query
            assert (await client.get("/rollouts", params={"tool": "tool 100 '\\"})).json()["data"] == []
            assert (await client.get("/rollouts", params={"q": "x" * 100})).json()["error"]["param"] == "q"


async def test_a_search_that_takes_too_long_is_refused(
    bench: Workbench, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await psycopg.AsyncConnection.connect(bench.database_url) as connection:
        await connection.execute("lock table rollouts in access exclusive mode")
        with monkeypatch.context() as impatient:
            impatient.setattr(repository, "PATIENCE_MS", 50)
            reply = await http.get("/rollouts", params={"q": "margin"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "search_too_wide")
    assert (await http.get("/rollouts", params={"q": "margin"})).raise_for_status().json()["data"]


REFUSED: tuple[tuple[dict[str, str], str, str | None], ...] = (
    ({"contains": "margin"}, "contains", "step_required"),
    ({"contains": "margin", "from_step": "1", "to_step": "2"}, "contains", "step_required"),
    ({"q": "!?"}, "q", "no_terms"),
    ({"sort": "price"}, "sort", None),
    ({"min_reward": "nan"}, "min_reward", None),
    ({"failure_code": "bad_luck"}, "failure_code", None),
)


async def test_what_cannot_be_searched_is_refused_at_its_field(http: httpx.AsyncClient) -> None:
    for query, param, code in REFUSED:
        reply = await http.get("/rollouts", params=query)
        error = reply.json()["error"]
        assert (reply.status_code, error["param"]) == (400, param), query
        assert code in (None, error["code"]), query
