"""What a newcomer copies out of the READMEs does what is written beside it."""

import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
from openai import OpenAI

from tests.shared.free_port import free_port

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
READMES = (ROOT / "README.md", *sorted((ROOT / "examples").glob("*/README.md")))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:make|rft|pip|python|export|\.venv/bin/\w+)\b.*")
PATIENCE_S = 900
FEW_ROWS = 24

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


def commands() -> list[str]:
    """Every line of a fenced block that a shell would be given, without its comment."""
    fenced = [found for readme in READMES for found in FENCE.findall(readme.read_text())]
    blocks = [block for language, block in fenced if language in ("", "sh")]
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if COMMAND.match(line)]


@dataclass(slots=True)
class Newcomer:
    """Somebody with a clone, a running platform, and a folder with their files."""

    folder: Path
    home: Path
    base_url: str
    api_key: str
    port: int
    """That they type where the README has 8080."""
    background: list[subprocess.Popen[bytes]]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "RFT_HOME": str(self.home), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}

    def as_typed(self, line: str) -> str:
        """With their own port, key and folder."""
        mine = {
            "http://127.0.0.1:8787/v1": self.base_url,
            "8080": str(self.port),
            "OPENAI_API_KEY=...": f"OPENAI_API_KEY={self.api_key}",
            "var/finqa_mini": shlex.quote(str(self.folder)),
        }
        for written, typed in mine.items():
            line = line.replace(written, typed)
        return line

    def run(self, line: str, *, within: Path = ROOT) -> str:
        """What a command says that ends well."""
        shell = f"export OPENAI_BASE_URL={self.base_url} OPENAI_API_KEY={self.api_key}; {self.as_typed(line)}"
        done = subprocess.run(
            ["bash", "-c", shell], cwd=within, env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Generator[Newcomer]:
    from tests.shared.quick_starter import cache_of, give_quick_starter

    home, folder = tmp_path_factory.mktemp("platform") / "home", tmp_path_factory.mktemp("newcomer")
    give_quick_starter(cache_of(tmp_path_factory), home / "starter")
    environment = {**os.environ, "RFT_HOME": str(home), "RFT_PORT": "0", "RFT_TORCH_THREADS": "1"}
    background: list[subprocess.Popen[bytes]] = []
    with subprocess.Popen([".venv/bin/rft", "up"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as platform:
        try:
            connection = home / "connection.json"
            wait_until(connection.exists, platform)
            told = json.loads(connection.read_text())
            yield Newcomer(folder, home, told["base_url"], told["api_key"], free_port(), background)
        finally:
            for process in (*background, platform):
                process.send_signal(signal.SIGINT)
            for process in background:
                process.wait(300)


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def starts_a_server(newcomer: Newcomer, line: str) -> None:
    """The customer's, which stays for the commands behind it."""
    words = shlex.split(newcomer.as_typed(line.removesuffix("&")))
    ready = newcomer.folder / "server.port"
    server = subprocess.Popen([*words, "--port-file", ready], cwd=ROOT, env=newcomer.environment)
    newcomer.background.append(server)
    wait_until(ready.exists, server)


def makes_a_dataset(newcomer: Newcomer, line: str) -> None:
    newcomer.run(line)
    assert (newcomer.folder / "train.jsonl").stat().st_size > 1000
    valid = newcomer.folder / "valid.jsonl"
    rows = valid.read_bytes().splitlines(keepends=True)
    assert len(rows) > FEW_ROWS
    valid.write_bytes(b"".join(rows[:FEW_ROWS]))  # The baseline rolls out all of them.


def has_trained(client: OpenAI, job_id: str) -> bool:
    """A step behind the baseline is done."""
    ours = client.fine_tuning.jobs.retrieve(job_id).model_extra or {}
    return ours["current_step"] not in (None, 0)


def launches_a_job(newcomer: Newcomer, line: str) -> None:
    """Looked at until its first training step is done, and stopped then."""
    shell = (
        f"export OPENAI_BASE_URL={newcomer.base_url} OPENAI_API_KEY={newcomer.api_key}; exec {newcomer.as_typed(line)}"
    )
    with (
        OpenAI(base_url=newcomer.base_url, api_key=newcomer.api_key) as client,
        subprocess.Popen(
            ["bash", "-c", shell], cwd=ROOT, env=newcomer.environment, stdout=subprocess.DEVNULL
        ) as script,
    ):
        try:
            wait_until(lambda: any(job.status == "running" for job in client.fine_tuning.jobs.list()), script)
            (job,) = client.fine_tuning.jobs.list()
            wait_until(lambda: has_trained(client, job.id), script)
            client.fine_tuning.jobs.cancel(job.id)
        finally:
            script.terminate()


def is_a_target(newcomer: Newcomer, line: str) -> None:
    newcomer.run(f"make --dry-run {line.split()[1]}")


def runs_as_written(newcomer: Newcomer, line: str) -> None:
    newcomer.run(line)


def runs_beside_their_files(newcomer: Newcomer, line: str) -> None:
    """In the folder of the dataset, by the command's whole name."""
    server = f"http://127.0.0.1:{newcomer.port}"
    reinforcement = {
        "grader": {"type": "endpoint", "name": "exact", "url": f"{server}/grade"},
        "tools": [{"name": name, "server_url": f"{server}/tools/{name}"} for name in ("search", "list", "cat")],
    }
    body = {
        "model": "starter",
        "training_file": "train.jsonl",
        "method": {"type": "reinforcement", "reinforcement": reinforcement},
    }
    (newcomer.folder / "job.json").write_text(json.dumps(body))
    newcomer.run(line.replace(".venv/bin/", f"{ROOT}/.venv/bin/"), within=newcomer.folder)


def is_there_and_takes_its_options(newcomer: Newcomer, line: str) -> None:
    """It needs the hosted service's key; `tests/integration/evals_export` runs it against a copy of that service."""
    script = next(word for word in shlex.split(line) if word.endswith(".py"))
    usage = newcomer.run(f".venv/bin/python {script} --help").partition("\n\n")[0]
    assert usage.split()[-1] == "folder", "and nothing else has to be said"


def has_nothing_to_show(newcomer: Newcomer, line: str) -> None:
    """Sets what the commands behind it are run with, or installs what is there."""
    assert newcomer.as_typed(line)


HOW = {
    "make demo": is_a_target,
    "make test": is_a_target,
    "make install && .venv/bin/rft up": is_a_target,
    ".venv/bin/rft doctor": runs_as_written,
    ".venv/bin/python examples/finqa_mini/server.py --port 8080 &": starts_a_server,
    ".venv/bin/python examples/finqa_mini/generate.py --out var/finqa_mini": makes_a_dataset,
    "export OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=...": has_nothing_to_show,
    ".venv/bin/python examples/finqa_mini/job.py --server http://127.0.0.1:8080 --data var/finqa_mini": launches_a_job,
    ".venv/bin/rft validate train.jsonl --validation valid.jsonl": runs_beside_their_files,
    ".venv/bin/rft rehearse job.json --file train.jsonl": runs_beside_their_files,
    "pip install openai": has_nothing_to_show,
    "OPENAI_API_KEY=sk-... python examples/evals_export.py my-evals": is_there_and_takes_its_options,
}
"""Every command of the READMEs, in an order in which it can be run. `rft up` is what the newcomer's platform is."""


def test_every_command_of_the_readmes_is_tried() -> None:
    assert sorted(commands()) == sorted(HOW)


def test_every_command_does_what_is_written_beside_it(newcomer: Newcomer) -> None:
    for line, check in HOW.items():
        check(newcomer, line)
