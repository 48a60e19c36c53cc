"""`make bench-engine`: what the engine over vLLM servers costs its client, and how it spreads rollouts.

512 rollouts of uneven length, 256 at once, talk to servers in processes of their own, which play recorded tokens back.
Bars: at most 1 ms of the client's processor time per turn; with two servers, at least 80 % of a group's rollouts on one
of them and loads within 20 %; when one is killed in mid-burst, every rollout ends. Written to `var/bench/engine.json`;
1 when a bar is missed.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from rft.engines.vllm.adapters import AdapterFolder
from rft.engines.vllm.engine import VllmEngine
from rft.engines.vllm.options import EngineOptions, ServerAddress
from rft.rollouts.sampler import SampleRequest
from rft.testing.faults import Fault, HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.vllm_server import ScriptedVllm
from rft.vllm_server.release import VERSION

GROUPS, GROUP_SIZE, AT_ONCE = 64, 8, 256
ROLLOUTS = GROUPS * GROUP_SIZE
LONGEST_TURNS = 12
PROMPT_TOKENS, TURN_TOKENS, RESULT_TOKENS = 400, 60, 100
LATENCY_S = 0.2
STOP = 2
MOST_CPU_MS, LEAST_AFFINITY, LARGEST_IMBALANCE = 1.0, 0.8, 0.2


class Replaying(ScriptedVllm):
    """Every turn is the same; `/talked` tells which rollouts it had, by group."""

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        if call.path == "/talked":
            talked = Counter((body["prompt"][0], body["prompt"][1]) for body in self.sampled)
            return HttpAnswer(200, json.dumps([[*key, count] for key, count in talked.items()]).encode())
        return await super().answer(call)

    def tokens_of(self, body: dict[str, Any]) -> tuple[list[int], list[float]]:
        return [*range(100, 99 + TURN_TOKENS), STOP], [-0.5] * TURN_TOKENS


@dataclass(frozen=True, slots=True)
class Measured:
    """One burst."""

    servers: int
    turns: int
    wall_s: float
    cpu_ms_per_turn: float
    affinity: float
    """Share of rollouts that were on the server which most of their group was on."""
    imbalance: float
    """How far the server with the most turns is above the mean."""
    lost_rollouts: int


async def serve() -> None:
    """A server until standard input ends."""
    async with LoopbackEndpoint(Replaying(version=VERSION, latency_s=LATENCY_S)) as endpoint:
        print(endpoint.base_url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


@asynccontextmanager
async def server() -> AsyncGenerator[tuple[str, asyncio.subprocess.Process]]:
    """Its address and its process."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.engine", "--serve", stdin=pipe, stdout=pipe
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip(), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def turns_of(group: int, index: int) -> int:
    """How long a rollout is."""
    return Random(group * GROUP_SIZE + index).randint(1, LONGEST_TURNS)


async def talk(engine: VllmEngine, places: asyncio.Semaphore, group: int, index: int) -> None:
    """One rollout, once there is a place for it."""
    async with places:
        await _talk(engine, group, index)


async def _talk(engine: VllmEngine, group: int, index: int) -> None:
    rollout = f"{group}-{index}"
    tokens = [group, GROUPS + index, *range(3, PROMPT_TOKENS + 1)]
    for turn in range(turns_of(group, index)):
        sample = await engine.sample(
            SampleRequest(f"{rollout}-{turn}", tokens, 200, (STOP,), turn, rollout_id=rollout, group_id=str(group))
        )
        tokens = [*tokens, *sample.token_ids, *range(1000, 1000 + RESULT_TOKENS)]
    engine.rollout_ended(rollout)


async def burst(servers: int, folder: Path, *, is_one_killed: bool = False) -> Measured:
    """All rollouts at once."""
    async with AsyncExitStack() as stack:
        started = [await stack.enter_async_context(server()) for _ in range(servers)]
        options = EngineOptions("/models/base", 4096, requests_at_once=AT_ONCE)
        engine = VllmEngine(
            [ServerAddress(url) for url, _ in started], AdapterFolder(folder, run="bench", launch="1"), options
        )
        stack.push_async_callback(engine.close)
        await engine.sample(SampleRequest("first", [1, 2], 8, (STOP,), 0))
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        places = asyncio.Semaphore(AT_ONCE)
        rollouts = [(group, index) for group in range(GROUPS) for index in range(GROUP_SIZE)]
        talks = [asyncio.create_task(talk(engine, places, *rollout)) for rollout in rollouts]
        if is_one_killed:
            await asyncio.sleep(3 * LATENCY_S)
            started[0][1].kill()
        ended = await asyncio.gather(*talks, return_exceptions=True)
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        living = [
            url
            for url, process in started
            if process.returncode is None and not (is_one_killed and url == started[0][0])
        ]
        talked = [await _talked(url) for url in living]
    turns = sum(turns_of(*rollout) for rollout in rollouts)
    return Measured(
        servers=servers,
        turns=turns,
        wall_s=round(wall_s, 3),
        cpu_ms_per_turn=round(1000 * cpu_s / turns, 3),
        affinity=round(_affinity(talked), 3),
        imbalance=round(
            max(map(Counter[tuple[int, int]].total, talked))
            * len(talked)
            / sum(map(Counter[tuple[int, int]].total, talked))
            - 1,
            3,
        ),
        lost_rollouts=sum(isinstance(end, BaseException) for end in ended),
    )


async def _talked(url: str) -> Counter[tuple[int, int]]:
    reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
    writer.write(b"GET /talked HTTP/1.1\r\nhost: bench\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    rows = json.loads(await reader.readexactly(length))
    writer.close()
    return Counter({(group, index): count for group, index, count in rows if index >= GROUPS})


def _affinity(talked: list[Counter[tuple[int, int]]]) -> float:
    at_home = sum(max(sum(group == of for of, _ in one) for one in talked) for group in range(GROUPS))
    return at_home / ROLLOUTS


async def measure() -> dict[str, Measured]:
    """Every case."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "adapters"
        return {
            "one server": await burst(1, place),
            "two servers": await burst(2, place),
            "one of two killed": await burst(2, place, is_one_killed=True),
        }


def main() -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true")
    if parser.parse_args().serve:
        asyncio.run(serve())
        return 0
    measured = asyncio.run(measure())
    out = Path("var/bench/engine.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({name: asdict(one) for name, one in measured.items()}, indent=2) + "\n")
    print(out.read_text())
    two, killed = measured["two servers"], measured["one of two killed"]
    bars = {
        f"client <= {MOST_CPU_MS} ms of CPU per turn": measured["one server"].cpu_ms_per_turn <= MOST_CPU_MS,
        f"affinity >= {LEAST_AFFINITY:.0%}": two.affinity >= LEAST_AFFINITY,
        f"load within {LARGEST_IMBALANCE:.0%}": two.imbalance <= LARGEST_IMBALANCE,
        "all rollouts end when a server is killed": killed.lost_rollouts == 0,
    }
    for bar, is_kept in bars.items():
        print(f"{'kept  ' if is_kept else 'MISSED'}  {bar}")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
