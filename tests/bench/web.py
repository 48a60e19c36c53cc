"""`make bench-web`: pages of a job of a million rollouts, as the API answers what they ask and as a browser shows them.

Writes `var/bench/web.json`: `{"cases": {name: {figures..., "bar": ..., "passed": bool}}}` and what it was measured on.
Needs five gigabytes of disk while it runs, and a machine with nothing else to do.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
import psycopg

from rft.core.base import JsonObject
from rft.platform.store.migrations import migrate
from tests.bench.api_data import Size, Stored, fill
from tests.bench.api_reads import JOBS, Latencies
from tests.bench.api_server import Served, api, postgres
from tests.bench.api_writes import Run
from tests.bench.web_browser import browser_cases
from tests.bench.web_terms import RARE, fill_terms
from tests.bench.web_watchers import watching

FILTER_BAR_MS = 300.0
SORT_BAR_MS = 500.0
LOADS = 12
WATCHERS = 50
WATCHED_S = 60
PARTS = frozenset({"api", "browser", "watchers"})
ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())

Query = Callable[[int], str]
"""The query of the n-th load: no two are alike where there is something to vary."""
FILTERS: dict[str, Query] = {
    "none": lambda n: f"limit={50 + n}",
    "steps": lambda n: f"from_step={n * 700 + 1}&to_step={n * 700 + 300}",
    "row": lambda n: f"row_index={n * 31 % 1500}&outcome=graded",
    "reward": lambda n: f"min_reward=0.{n + 10}&max_reward=0.{n + 10}5",
    "reward_of_none": lambda n: f"min_reward={n + 2}",
    "stop_reason_of_none": lambda n: f"stop_reason=context_full&min_tokens={n}",
    "failure": lambda n: f"failure_code=timeout&from_step={n}",
    "fault_of_none": lambda n: f"fault=platform&min_tokens={n}",
    "tool": lambda n: f"tool=search&min_tokens={n}",
    "tool_of_none": lambda n: f"tool=list&min_tokens={n}",
    "tokens_of_none": lambda n: f"min_tokens={n + 1000}",
    "seconds_of_none": lambda n: f"max_duration_s=0.{n + 1}",
    "word_of_all": lambda n: f"q=changed&limit={50 + n}",
    "word_of_few": lambda n: f"q={RARE}&limit={60 + n}",
    "word_of_none": lambda n: f"q=nowhere{n}",
    "beginning_of_a_word": lambda n: f"q=footnote{n + 10}*",
    "text_in_a_step": lambda n: f"contains=egment{n + 1}&step={n * 700 + 1}",
}
SORTS: dict[str, Query] = {
    "by_reward": lambda n: f"sort=reward&limit={50 + n}",
    "by_reward_filtered": lambda n: f"sort=reward&order=asc&outcome=graded&min_tokens={n}",
    "by_tokens": lambda n: f"sort=completion_tokens&order=asc&limit={50 + n}",
    "by_duration": lambda n: f"sort=duration_s&limit={50 + n}",
}


async def run(url: str, size: Size, parts: frozenset[str] = PARTS) -> JsonObject:
    """The wanted parts, one after the other, on one empty database."""
    load_before = os.getloadavg()[0]
    await migrate(url)
    stored = await asyncio.to_thread(fill, url, size)
    if "api" in parts:
        began_s = time.monotonic()
        await asyncio.to_thread(fill_terms, stored)
        print(f"{stored.rollouts:,} rollouts, terms in {time.monotonic() - began_s:.0f} s", flush=True)
    async with api(url) as served:
        cases = await _measure(served, stored) if "api" in parts else {}
        if "browser" in parts:
            cases |= await browser_cases(served, stored)
        if "watchers" in parts:
            cases["watchers"] = await watching(served, Run(stored), watchers=WATCHERS, seconds=WATCHED_S)
    machine: JsonObject = {
        "cores": os.cpu_count(),
        "load_before": round(load_before, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "rollouts": stored.rollouts,
        "bytes": _sizes(url),
    }
    return {"cases": cases, "machine": machine}


async def _measure(served: Served, stored: Stored) -> JsonObject:
    headers = {"Authorization": f"Bearer {served.key}"}
    cases: JsonObject = {}
    async with aiohttp.ClientSession(served.url, headers=headers) as session:
        job = f"{JOBS}/{stored.large_job}"
        for name, query in FILTERS.items():
            cases[f"filter_{name}"] = await _case(session, lambda n, q=query: f"{job}/rollouts?{q(n)}", FILTER_BAR_MS)
        for name, query in SORTS.items():
            cases[f"sort_{name}"] = await _case(session, lambda n, q=query: f"{job}/rollouts?{q(n)}", SORT_BAR_MS)
        page = json.loads(await _get(session, f"{job}/rollouts?outcome=failed&limit={LOADS + 3}"))
        ids = [rollout["id"] for rollout in page["data"]]
        cases["neighbours"] = await _case(
            session, lambda n: f"{job}/rollouts/{ids[n % len(ids)]}/neighbours?outcome=failed", FILTER_BAR_MS
        )
    return cases


async def _case(session: aiohttp.ClientSession, path_of: Query, bar_ms: float) -> JsonObject:
    """Asked again and again over one connection; the first two only warm up."""
    times_ms: list[float] = []
    found = 0
    for number in range(LOADS + 2):
        began_s = time.perf_counter()
        body = await _get(session, path_of(number))
        times_ms.append((time.perf_counter() - began_s) * 1e3)
        found = max(found, len(json.loads(body).get("data", ())))
    latencies = Latencies(tuple(times_ms[2:]), 0)
    figures: JsonObject = {f"p{percent}_ms": round(latencies.at(percent), 1) for percent in (50, 95)}
    judged: JsonObject = {"found": found, "bar": {"p95_ms": bar_ms}, "passed": latencies.at(95) <= bar_ms}
    return figures | judged


async def _get(session: aiohttp.ClientSession, path: str) -> bytes:
    async with session.get(path) as reply:
        body = await reply.read()
        assert reply.status == 200, body
        return body


def _sizes(url: str) -> JsonObject:
    """Of what was stored to search by, in bytes."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select relname, pg_total_relation_size(oid) from pg_class"
            " where relname in ('rollouts', 'rollouts_newest', 'rollout_terms', 'rollout_terms_of_text')"
        ).fetchall()
    return {name: size for name, size in rows}


async def _on_own_server(size: Size, parts: frozenset[str]) -> JsonObject:
    async with postgres() as url:
        return await run(url, size, parts)


def main() -> int:
    """Run all cases; 1 when one misses its bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--part", action="append", choices=sorted(PARTS), help="only this one; may be said again")
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "bench" / "web.json")
    options = parser.parse_args()
    size = Size(rollouts=options.rollouts, steps=options.steps, jobs=options.jobs, large_share=0.98)
    report = asyncio.run(_on_own_server(size, frozenset(options.part or PARTS)))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    cases = report["cases"]
    assert isinstance(cases, dict)
    return 0 if all(isinstance(case, dict) and case["passed"] for case in cases.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
