"""The FinQA example as a customer runs it: its server, its rows, and a home for a platform."""

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.shared.running_platform import until

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
FINQA = ROOT / "examples" / "finqa"
SHARED = ROOT.parent / "shared" / "data" / "finqa"
DATA = SHARED if SHARED.exists() else FINQA / "data"
"""All questions where the whole data set lies beside the checkout, else the cut that ships."""


@pytest.fixture(scope="module")
def home() -> Generator[Path]:
    """Outside pytest's own folder, which root's service user could not enter."""
    with TemporaryDirectory(prefix="rft-test-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder) / "home"


@pytest.fixture(scope="module")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    port_file = tmp_path_factory.mktemp("finqa") / "port"
    command = [sys.executable, FINQA / "server.py", "--data", DATA, "--port", "0", "--port-file", port_file]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        until(lambda: port_file.exists() and bool(port_file.read_text()), "the FinQA server")
        yield f"http://127.0.0.1:{port_file.read_text()}"
    finally:
        server.terminate()
        server.wait(120)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.jsonl cut to two rows, valid.jsonl whole."""
    out = tmp_path_factory.mktemp("rows")
    subprocess.run([sys.executable, FINQA / "generate.py", "--data", DATA, "--out", out], check=True)
    train = (out / "train.jsonl").read_text().splitlines(keepends=True)
    (out / "train.jsonl").write_text("".join(train[:2]))
    return out
