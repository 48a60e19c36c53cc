"""`make bench-api`: the API and the worker over a database as a busy year leaves it.

Writes `var/bench/api.json`: `{"cases": {name: {figures..., "bar": ..., "passed": bool}}}` and what it was measured on.
Postgres and the API are the embedded ones, with the settings customers get, in processes of their own. Needs five
gigabytes of disk while it runs, and a machine with nothing else to do.
"""

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path

from rft.core.base import JsonObject
from rft.platform.store.migrations import migrate
from tests.bench.api_data import Size, Stored, fill
from tests.bench.api_reads import measure
from tests.bench.api_server import api, postgres
from tests.bench.api_text_index import text_index
from tests.bench.api_writes import Run, ingestion, sse

ATTEMPTS_PER_ROLLOUT = 4
"""Three tool calls and a grade."""
ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())


async def run(
    url: str, size: Size, *, loads: int = 300, watchers: int = 200, sse_s: float = 20, ingested: int = 30_000
) -> JsonObject:
    """Everything, one after the other, on one empty database."""
    load_before = os.getloadavg()[0]
    await migrate(url)
    stored = await asyncio.to_thread(fill, url, size)
    print(f"{stored.rollouts:,} rollouts, {stored.bytes / 1e9:.1f} GB, filled in {stored.fill_s:.0f} s", flush=True)
    async with api(url) as served:
        cases = await measure(served, stored, loads=loads)
        cases["sse"] = await sse(served, Run(stored), watchers=watchers, seconds=sse_s)
    run = Run(stored)
    cases["ingestion"] = await ingestion(run, rollouts=ingested)
    cases["ingestion_with_ledger"] = await ingestion(run, rollouts=ingested, attempts=ATTEMPTS_PER_ROLLOUT)
    cases["ingestion_with_tokens"] = await ingestion(run, rollouts=ingested, has_tokens=True)
    cases["text_index"] = await text_index(run, rollouts=ingested)
    return {"cases": {name: figures for name, figures in cases.items()}, "machine": _machine(load_before, stored)}


def _machine(load_before: float, stored: Stored) -> JsonObject:
    return {
        "cores": os.cpu_count(),
        "load_before": round(load_before, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "rollouts": stored.rollouts,
        "steps": stored.size.steps,
        "database_bytes": stored.bytes,
        "fill_s": round(stored.fill_s, 1),
    }


def missed(report: JsonObject) -> list[str]:
    """Cases that did not reach their bar; the floor has none."""
    cases = report["cases"]
    assert isinstance(cases, dict)
    return [name for name, case in cases.items() if isinstance(case, dict) and case.get("passed") is False]


async def _on_own_server(size: Size) -> JsonObject:
    async with postgres() as url:
        return await run(url, size)


def wanted(arguments: list[str]) -> tuple[Size, Path]:
    """What to measure, and where the figures go; what nobody names is of full size."""
    whole = Size()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=whole.rollouts)
    parser.add_argument("--steps", type=int, default=whole.steps)
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "bench" / "api.json")
    options = parser.parse_args(arguments)
    return Size(rollouts=options.rollouts, steps=options.steps), options.out


def main() -> int:
    """Run all cases; 1 when one misses its bar."""
    size, out = wanted(sys.argv[1:])
    report = asyncio.run(_on_own_server(size))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    return 1 if missed(report) else 0


if __name__ == "__main__":
    sys.exit(main())
