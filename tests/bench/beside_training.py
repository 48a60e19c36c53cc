"""`make bench-beside`: what answering chat costs a training job on the same machine -> var/bench/beside.json.

The same job with the same seed: alone, beside a serving process that nobody asks, and beside eight streams that are
open all the time. Speed is that of whole steps by the job's own clock, the first one left out; cases take turns, so
that a machine that slows down slows all of them.
"""

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from openai import APIError, OpenAI

from rft.core.base import JsonObject
from rft.serving_wire.endpoint_file import read_endpoint
from tests.bench.demo_platform import DemoPlatform, demo, demo_platform

STREAMS = 8
IDLE_BAR, BUSY_BAR = 0.95, 0.70
HYPERPARAMETERS: dict[str, Any] = {"n_epochs": 1, "batch_size": 16, "eval_interval": 1000}
SEED = 5
QUESTION: Any = [{"role": "user", "content": "What was the revenue of Alpine Foods in 2017? Tell all that you know."}]


def step_seconds(platform: DemoPlatform, steps: int) -> float:
    """The median time of a step of a fresh job, which is cancelled after so many."""
    client = platform.client
    job_id = demo.launch(client, platform.data, platform.server, SEED, HYPERPARAMETERS)
    records: list[dict[str, Any]] = []
    while len(records) <= steps + 1 and client.fine_tuning.jobs.retrieve(job_id).status not in demo.TERMINAL:
        time.sleep(0.5)
        records = demo.steps_of(client, job_id)
    client.fine_tuning.jobs.cancel(job_id)
    while client.fine_tuning.jobs.retrieve(job_id).status not in demo.TERMINAL:
        time.sleep(0.5)
    # Step 0 only evaluates, and the first one warms up.
    return median(record["timing"]["full_step_s"] for record in records[2 : steps + 2])


def answer(client: OpenAI) -> int:
    """One long answer; how many pieces came."""
    stream = client.chat.completions.create(
        model="starter", messages=QUESTION, max_completion_tokens=400, temperature=1.5, stream=True
    )
    return sum(1 for _ in stream)


@contextmanager
def open_streams(client: OpenAI, count: int) -> Generator[list[int]]:
    """So many answers at any time; the pieces of each finished one."""
    is_over, pieces = threading.Event(), list[int]()

    def ask() -> None:
        while not is_over.is_set():
            try:
                pieces.append(answer(client))
            except APIError:
                is_over.wait(0.5)

    askers = [threading.Thread(target=ask, daemon=True) for _ in range(count)]
    for asker in askers:
        asker.start()
    try:
        yield pieces
    finally:
        is_over.set()
        for asker in askers:
            asker.join(120)


def unload(serving_dir: Path) -> None:
    """End the serving processes, and wait until they are gone."""
    for folder in serving_dir.iterdir():
        if (endpoint := read_endpoint(folder)) is not None:
            os.kill(endpoint.pid, signal.SIGTERM)
            while read_endpoint(folder) is not None:
                time.sleep(0.1)


def beside_training(out: Path, *, steps: int = 8, repeats: int = 3, is_quick: bool = False) -> JsonObject:
    """The case for `var/bench/serve.json`."""
    alone: list[float] = []
    idle: list[float] = []
    busy: list[float] = []
    pieces = 0
    with demo_platform(out, data_seed=1, is_quick=is_quick) as platform:
        for _ in range(repeats):
            alone.append(step_seconds(platform, steps))
            answer(platform.client)
            idle.append(step_seconds(platform, steps))
            with open_streams(platform.client, STREAMS) as finished:
                busy.append(step_seconds(platform, steps))
            pieces += sum(finished)
            unload(out / "home" / "serving" / socket.gethostname())
    return case_of(alone, idle, busy, pieces)


def case_of(alone: Sequence[float], idle: Sequence[float], busy: Sequence[float], pieces: int) -> JsonObject:
    """Seconds of a step, repeat by repeat; speeds are held against the same repeat's job that ran alone."""
    beside_idle, beside_streams = (
        median(own / other for own, other in zip(alone, times, strict=True)) for times in (idle, busy)
    )
    return {
        "step_s_alone": [round(each, 3) for each in alone],
        "speed_beside_idle_serving": round(beside_idle, 3),
        "speed_beside_streams": round(beside_streams, 3),
        "streams": STREAMS,
        "pieces_streamed": pieces,
        "bar": {"speed_beside_idle_serving": IDLE_BAR, "speed_beside_streams": BUSY_BAR},
        "passed": beside_idle >= IDLE_BAR and beside_streams >= BUSY_BAR and pieces > 0,
    }


def main() -> int:
    """Run it; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few rows: to see that it works")
    parser.add_argument("--out", type=Path, default=demo.ROOT / "var" / "bench" / "beside")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, demo.stop)
    options.out.mkdir(parents=True, exist_ok=True)
    case = beside_training(options.out, steps=options.steps, repeats=options.repeats, is_quick=options.quick)
    report = json.dumps({"cases": {"beside_training": case}}, indent=2)
    (options.out.parent / "beside.json").write_text(report + "\n")
    print(report)
    return 0 if case["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
