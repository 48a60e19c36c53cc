"""`make bench-serve`: what the platform adds between a serving process and its clients.

Writes `var/bench/serve.json`: `{"cases": {name: {figures..., "bar": ..., "passed": bool}}}`. A process without a model
replays 40 tokens a second, each with the time at which it was sent, to clients that come at a steady rate, whether the
ones before them have ended or not: 64 streams are open at any time, and what counts of first tokens is those asked for
while they are. The same clients sit behind the API and, in the control before and after that, straight before the
process. Postgres, the API, the replaying process and the clients share the machine. The first token of a cold
checkpoint is measured on the starter policy, which is built where it is not there.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop

from rft.core.base import JsonObject
from rft.core.chat_spec import ChatSpec
from rft.platform.serving.processes import ServingProcesses
from rft.platform.serving.served_model import ServedModel
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.platform.store.migrations import migrate
from rft.serving_wire.endpoint_file import read_endpoint
from rft.serving_wire.records import ServingEndpoint
from tests.bench.api_server import Served, api, postgres
from tests.bench.streams import (
    BODIES,
    Heard,
    Stream,
    cpu_s,
    hear_all,
    percentiles_ms,
    slower_than_reference,
    straight,
    through,
)

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
MODEL = "replayed"
RATE = 40.0
ADDED_BAR = {"first_p50_ms": 2.0, "first_p99_ms": 20.0, "token_p50_ms": 2.0, "token_p99_ms": 20.0}
CPU_BAR_MS = 0.15
SLOWEST_BAR = 1.2
"""Of the time that a stream takes with nobody beside it."""


@dataclass(frozen=True, slots=True)
class Size:
    """What is measured."""

    streams: int = 64
    """Open at any time."""
    rounds: int = 3
    """How many follow one another in each of their places; before the second one not all places are taken."""
    tokens: int = 400
    crowd: int = 200
    crowd_tokens: int = 200


@dataclass(frozen=True, slots=True)
class Replayed:
    """A platform whose model is replayed."""

    served: Served
    endpoint: ServingEndpoint


@asynccontextmanager
async def replayed(database_url: str, tokens: int) -> AsyncGenerator[Replayed]:
    """The API over a process that replays so many tokens to whoever asks."""
    with tempfile.TemporaryDirectory(prefix="rft-bench-serve-") as home:
        model = Path(home) / MODEL
        model.mkdir()
        (model / "config.json").write_text("{}")
        settings = Settings.model_validate({"home": home, "DATABASE_URL": database_url})
        processes = ServingProcesses(settings, Database(database_url))
        folder = processes.folder_of(ServedModel(str(model), ChatSpec(), None))
        command = [sys.executable, "-m", "tests.bench.serving_process", str(folder)]
        process = await asyncio.create_subprocess_exec(
            *command, "--tokens", str(tokens), "--rate", str(RATE), stdout=asyncio.subprocess.PIPE, cwd=ROOT
        )
        try:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"listening\n"
            endpoint = read_endpoint(folder)
            assert endpoint is not None
            models = json.dumps({MODEL: str(model)})
            async with api(database_url, RFT_HOME=home, RFT_BASE_MODELS=models) as served:
                yield Replayed(served, endpoint)
        finally:
            process.terminate()
            await process.wait()


@dataclass(frozen=True, slots=True)
class Behind:
    """What clients behind the API heard, and what it took of the processor."""

    heard: list[Heard]
    used_s: float


async def heard_through(running: Replayed, size: Size, path: str) -> Behind:
    """All rounds over one of the endpoints."""
    stream = through(running.served, path, MODEL)
    await hear_all(stream, 2, apart_s=0)
    before_s = cpu_s(running.served.pid)
    heard = await _rounds(stream, size)
    return Behind(heard, cpu_s(running.served.pid) - before_s)


def added(behind: Behind, size: Size, control: list[Heard], machine: float) -> JsonObject:
    """What lies between the process and the client, against the control. `machine`: how much slower this one is."""
    ours, theirs = _figures(behind.heard, size), _figures(control, size)
    figures = {name: round(max(0.0, ours[name] - theirs[name]), 3) for name in ours}
    cpu_ms = behind.used_s * 1e3 / (len(behind.heard) * size.tokens)
    calibrated = cpu_ms / machine
    return {
        "added": dict(figures),
        "control": {name: round(value, 3) for name, value in theirs.items()},
        "cpu_ms_per_token": round(cpu_ms, 4),
        "cpu_ms_per_token_calibrated": round(calibrated, 4),
        "bar": {**ADDED_BAR, "cpu_ms_per_token_calibrated": CPU_BAR_MS},
        "passed": all(figures[name] <= bar for name, bar in ADDED_BAR.items()) and calibrated <= CPU_BAR_MS,
    }


async def crowd(running: Replayed, size: Size, tokens: int) -> JsonObject:
    """So many clients at once; every one of them has its tokens in its time."""
    stream = through(running.served, "/v1/chat/completions", MODEL)
    heard = await hear_all(stream, size.crowd, apart_s=tokens / RATE / 3 / size.crowd)
    _assert_complete(heard, size.crowd, tokens)
    alone_s = (tokens - 1) / RATE
    slowest = max(sum(one.gaps_s) for one in heard) / alone_s
    return {
        "clients": size.crowd,
        "slowest_ratio": round(slowest, 3),
        "longest_gap_ms": round(max(max(one.gaps_s) for one in heard) * 1e3, 1),
        "bar": {"slowest_ratio": SLOWEST_BAR},
        "passed": slowest <= SLOWEST_BAR,
    }


async def run(database_url: str, size: Size) -> JsonObject:
    """Everything, one after the other."""
    await migrate(database_url)
    load_before, machine = os.getloadavg()[0], slower_than_reference()
    cases: dict[str, JsonObject] = {}
    async with replayed(database_url, size.tokens) as running:
        control = await _rounds(straight(running.endpoint), size)
        heard = {path: await heard_through(running, size, path) for path in BODIES}
        control += await _rounds(straight(running.endpoint), size)
    for path, behind in heard.items():
        cases[path.removeprefix("/v1/").replace("/", "_")] = added(behind, size, control, machine)
    async with replayed(database_url, size.crowd_tokens) as running:
        cases["crowd"] = await crowd(running, size, size.crowd_tokens)
    about: JsonObject = {
        "cores": os.cpu_count(),
        "load_before": round(load_before, 2),
        "slower_than_reference": round(machine, 3),
    }
    return {"cases": dict(cases), "machine": about}


async def _rounds(stream: Stream, size: Size) -> list[Heard]:
    """By the time at which they began; when the first ends, as many are open as are to be."""
    clients = size.streams * size.rounds
    heard = await hear_all(stream, clients, apart_s=size.tokens / RATE / size.streams)
    _assert_complete(heard, clients, size.tokens)
    return heard


def _figures(heard: list[Heard], size: Size) -> dict[str, float]:
    """`heard`: whole rounds, one or more times."""
    per_run = size.streams * size.rounds
    among_all = [one for number, one in enumerate(heard) if number % per_run >= size.streams]
    first_p50, first_p99 = percentiles_ms([one.first_s for one in among_all])
    token_p50, token_p99 = percentiles_ms([age for one in heard for age in one.ages_s])
    return {"first_p50_ms": first_p50, "first_p99_ms": first_p99, "token_p50_ms": token_p50, "token_p99_ms": token_p99}


def _assert_complete(heard: list[Heard], clients: int, tokens: int) -> None:
    assert [len(one.ages_s) for one in heard] == [tokens] * clients


def missed(report: JsonObject) -> list[str]:
    """Cases that did not reach their bar."""
    cases = report["cases"]
    assert isinstance(cases, dict)
    return [name for name, case in cases.items() if isinstance(case, dict) and case.get("passed") is False]


async def _on_own_servers(size: Size, starter: Path) -> JsonObject:
    from tests.bench.cold_checkpoint import cold_checkpoint  # late: it takes the tensor library along

    async with postgres() as url:
        report = await run(url, size)
    async with postgres() as url:
        await migrate(url)
        cases = report["cases"]
        assert isinstance(cases, dict)
        cases["cold_checkpoint"] = await cold_checkpoint(url, starter)
    return report


def _built(starter: Path) -> Path:
    """The starter policy; built where it is not there."""
    if not (starter / "config.json").is_file():
        subprocess.run([sys.executable, "-m", "rft.starter", str(starter)], check=True)
    return starter


def main() -> int:
    """Run all cases; 1 when one misses its bar."""
    whole = Size()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=whole.streams)
    parser.add_argument("--tokens", type=int, default=whole.tokens)
    parser.add_argument("--crowd", type=int, default=whole.crowd)
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "bench" / "serve.json")
    parser.add_argument("--starter", type=Path, default=ROOT / "var" / "bench" / "starter")
    options = parser.parse_args()
    size = Size(options.streams, whole.rounds, options.tokens, options.crowd, min(options.tokens, whole.crowd_tokens))
    report = uvloop.run(_on_own_servers(size, _built(options.starter)))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    return 1 if missed(report) else 0


if __name__ == "__main__":
    sys.exit(main())
