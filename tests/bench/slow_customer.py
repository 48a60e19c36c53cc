"""The demo's customer, whose tools take their time: for benchmarks of what happens meanwhile.

Each call of a tool takes `--latency` seconds, or what its address says (`/tools?latency=3`), or, with `--tail`, a time
from a log-normal distribution of that median and this spread, drawn from the call's number.
"""

import argparse
import asyncio
import random
import sys
from itertools import count
from pathlib import Path
from urllib.parse import parse_qs

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "finqa_mini"))  # as its own script has it

from corpus import Library, write_reports  # pyright: ignore
from faults import Faults  # pyright: ignore
from server import create_app, serve  # pyright: ignore
from starlette.types import ASGIApp, Receive, Scope, Send


class SlowTools:
    """Answers after a while."""

    def __init__(self, app: ASGIApp, *, latency_s: float, tail: float) -> None:
        self._app, self._latency_s, self._tail, self._numbers = app, latency_s, tail, count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and scope["path"].startswith("/tools"):
            told = parse_qs(scope["query_string"].decode()).get("latency")
            latency_s = self._latency_s if told is None else float(told[0])
            spread = random.Random(next(self._numbers)).lognormvariate(0.0, self._tail) if self._tail else 1.0
            await asyncio.sleep(latency_s * spread)
        await self._app(scope, receive, send)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--port-file", type=Path)
    parser.add_argument("--latency", type=float, required=True)
    parser.add_argument("--tail", type=float, default=0.0, help="standard deviation of the latency's logarithm")
    options = parser.parse_args()
    app = create_app(Library(write_reports()), Faults(0.0))
    app.add_middleware(SlowTools, latency_s=options.latency, tail=options.tail)
    serve(app, "127.0.0.1", options.port, options.port_file)


if __name__ == "__main__":
    main()
