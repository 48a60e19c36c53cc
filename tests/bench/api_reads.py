"""What people read: each case asks for one page again and again over kept connections, no two questions alike."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, cycle

import aiohttp
import psycopg

from rft.core.base import JsonObject
from tests.bench.api_data import VALIDATED_EVERY, Stored
from tests.bench.api_server import Served

JOBS = "/v1/fine_tuning/jobs"
BAR_MS = 50.0
READERS = 1
"""Connections that ask at once, each as soon as it has its answer."""
WARM_UP = 10

Questions = Iterator[tuple[str, ...]]
"""The paths of one page load; more than one are asked side by side, as a browser does."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of whole page loads, in milliseconds, with the mean size of what came back."""

    ms: tuple[float, ...]
    bytes_mean: float

    def at(self, percent: int) -> float:
        """A percentile."""
        ordered = sorted(self.ms)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]

    def figures(self) -> JsonObject:
        """For the report."""
        figures: JsonObject = {f"p{percent}_ms": round(self.at(percent), 2) for percent in (50, 95, 99)}
        return figures | {"requests": len(self.ms), "kilobytes_mean": round(self.bytes_mean / 1e3, 1)}


async def measure(served: Served, stored: Stored, *, loads: int) -> dict[str, JsonObject]:
    """Every read case, beside the floor."""
    headers = {"Authorization": f"Bearer {served.key}"}
    results: dict[str, JsonObject] = {}
    async with aiohttp.ClientSession(served.url, headers=headers) as session:
        for name, questions in _cases(stored).items():
            latencies = await _ask(session, questions, loads)
            results[name] = latencies.figures()
            if name != "floor":
                results[name] |= {"bar": {"p95_ms": BAR_MS}, "passed": latencies.at(95) <= BAR_MS}
    return results


def _cases(stored: Stored) -> dict[str, Questions]:
    job = f"{JOBS}/{stored.large_job}"
    # What the dashboard asks for when somebody opens a job (`web/src/data/queries.ts`), but for the stream.
    parts = ("curves?points=500", "checkpoints?limit=100", "events?type=message&limit=50", "endpoints")
    page = (job, *(f"{job}/{part}" for part in (*parts, "rollouts?limit=25")))
    return {
        "floor": cycle([("/health",)]),
        "job_list": cycle(
            [(f"{JOBS}?limit=100",), (f"{JOBS}?limit=100&after={stored.job_ids[len(stored.job_ids) // 2]}",)]
        ),
        "job_page": cycle([page]),
        "rollout_page": _pages(job, stored),
        "rollout_search": _searches(job, stored),
        "rollout_detail": _details(job, stored),
    }


def _pages(job: str, stored: Stored) -> Questions:
    """From the front, and from all depths."""
    ids = _some_rollouts(stored)
    for number in count():
        after = f"&after={ids[number * 7919 % len(ids)]}" if number % 4 else ""
        yield (f"{job}/rollouts?limit=50{after}",)


def _searches(job: str, stored: Stored) -> Questions:
    """Every filter and what people combine, hits or none; also in pages that begin deep."""
    steps, ids = stored.size.steps, _some_rollouts(stored)
    filters: tuple[Callable[[int], str], ...] = (
        lambda n: f"step={1 + n * 37 % steps}",
        lambda n: "split=valid",
        lambda n: "outcome=failed",
        lambda n: f"row_index={n * 31 % 1500}",
        lambda n: f"row_index={n * 31 % 1500}&outcome=failed",
        lambda n: "split=valid&outcome=failed",
        lambda n: f"split=valid&step={VALIDATED_EVERY * (1 + n * 37 % (steps // VALIDATED_EVERY))}",
        lambda n: f"step={1 + n * 41 % steps}&row_index={n % 1500}&split=train&outcome=graded",
        lambda n: "row_index=999999",
    )
    for number in count():
        after = f"&after={ids[number * 7919 % len(ids)]}" if number % 2 else ""
        yield (f"{job}/rollouts?limit=50&{filters[number % len(filters)](number)}{after}",)


def _details(job: str, stored: Stored) -> Questions:
    ids = _some_rollouts(stored)
    for number in count():
        yield (f"{job}/rollouts/{ids[number * 7919 % len(ids)]}",)


def _some_rollouts(stored: Stored) -> list[str]:
    """Ids from all over the largest job."""
    with psycopg.connect(stored.database_url) as connection:
        rows = connection.execute(
            "select trace_id from generate_series(1, %(last)s, greatest(1, %(last)s / 1000)) as wanted (step)"
            " cross join lateral (select trace_id from rollouts where job_id = %(job)s and split = 'train'"
            " and step = wanted.step limit 1) as found",
            {"last": stored.size.steps, "job": stored.large_job},
        ).fetchall()
    return [row[0] for row in rows]


async def _ask(session: aiohttp.ClientSession, questions: Questions, loads: int) -> Latencies:
    for _ in range(WARM_UP):
        await _load(session, next(questions))
    times_ms: list[float] = []
    sizes: list[int] = []

    async def reader() -> None:
        while len(times_ms) + READERS <= loads:
            paths = next(questions)
            began_s = time.perf_counter()
            size = await _load(session, paths)
            times_ms.append((time.perf_counter() - began_s) * 1e3)
            sizes.append(size)

    await asyncio.gather(*(reader() for _ in range(READERS)))
    return Latencies(tuple(times_ms), sum(sizes) / len(sizes))


async def _load(session: aiohttp.ClientSession, paths: tuple[str, ...]) -> int:
    return sum(await asyncio.gather(*(_get(session, path) for path in paths)))


async def _get(session: aiohttp.ClientSession, path: str) -> int:
    async with session.get(path) as reply:
        body = await reply.read()
        assert reply.status == 200, body
        return len(body)
