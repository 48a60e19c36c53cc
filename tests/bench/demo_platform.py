"""The demo's platform with its customer's server and questions, for benchmarks that launch several jobs on it."""

import json
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from openai import OpenAI

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))  # the demo imports what lies beside it

from examples import demo


@dataclass(frozen=True, slots=True)
class DemoPlatform:
    """A running one."""

    client: OpenAI
    server: str
    """Address of the customer's server."""
    data: Path
    """Folder of the questions."""
    home: Path
    """The platform's."""


@contextmanager
def demo_platform(
    out: Path,
    *,
    data_seed: int,
    is_quick: bool,
    customer: Sequence[str | Path] = (demo.MINI / "server.py",),
    settings: Mapping[str, str] | None = None,
) -> Generator[DemoPlatform]:
    """Its home lies in `out`; jobs that an interrupted run left there are cancelled.

    `customer`: the script of the customer's server and its arguments; `settings`: further ones of the platform.
    """
    work, home = out / "work", out / "home"
    port_file, connection_file = work / "server.port", home / "connection.json"
    for file in (port_file, connection_file):
        file.unlink(missing_ok=True)
    if not (home / "starter" / "config.json").exists():
        subprocess.run([sys.executable, "-m", "rft.starter", str(home / "starter")], check=True)
    rows = ["--rows", str(demo.QUICK_ROWS)] if is_quick else []
    generate = [
        sys.executable,
        str(demo.MINI / "generate.py"),
        "--out",
        str(work / "data"),
        "--seed",
        str(data_seed),
    ]
    subprocess.run([*generate, *rows], check=True)
    serve: list[str | Path] = [demo.BIN / "python", *customer, "--port", "0", "--port-file", port_file]
    environment = demo.platform_environment(home, 0.0, "transformers") | dict(settings or {})
    with (
        demo.running([demo.BIN / "rft", "up"], work / "platform.log", environment) as platform,
        demo.running(serve, work / "server.log") as server,
    ):
        address = f"http://127.0.0.1:{demo.wait_for_file(port_file, server, work / 'server.log').strip()}"
        connection = json.loads(demo.wait_for_file(connection_file, platform, work / "platform.log"))
        client = OpenAI(base_url=connection["base_url"], api_key=connection["api_key"])
        demo.cancel_leftovers(client)
        yield DemoPlatform(client, address, work / "data", home)
