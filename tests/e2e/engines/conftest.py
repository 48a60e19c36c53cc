"""One real vLLM server on the CPU for all tests of a process, over a tiny random model."""

import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest

from rft.engines.vllm.options import ServerAddress
from rft.starter.tokenizer import build_tokenizer
from rft.vllm_server.command import ServerOptions, server_command, server_environment
from rft.vllm_server.environment import python_of
from rft.vllm_server.process import ServerProcess
from tests.shared.by_hand import tiny_model
from tests.shared.free_port import free_port

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
HEAD_SIZE = 32
"""The smallest that vLLM has on a CPU."""
LONG_TOKENS = 8192
"""The server's context: long enough that nothing of that length is sampled while a test looks."""
KEY = "the tests' key"
STARTED: list[ServerProcess] = []
"""Of this process, and running."""


@dataclass(frozen=True, slots=True)
class RealServer:
    """Where it is, and its process."""

    model: Path
    url: str
    process: ServerProcess
    log: Path

    @property
    def address(self) -> ServerAddress:
        return ServerAddress(self.url, self.process.ensure_running)


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> RealServer:
    """Fails, rather than skips, where vLLM is not there: nobody would miss these tests."""
    python = Path(os.environ.get("RFT_VLLM_PYTHON") or python_of(ROOT / ".vllm"))
    if not python.exists():
        pytest.fail(f"there is no vLLM at {python}: `make engine` installs it, or RFT_VLLM_PYTHON names another one")
    folder, tokenizer, port = tmp_path_factory.mktemp("vllm"), build_tokenizer(), free_port()
    model = folder / "tiny"
    made = tiny_model(tokenizer, head_size=HEAD_SIZE)
    made.config.max_position_embeddings = LONG_TOKENS
    made.save_pretrained(model)
    tokenizer.save_pretrained(model)
    options = ServerOptions(
        str(model), port, is_cpu=True, max_context_tokens=LONG_TOKENS, requests_at_once=32, can_sleep=True
    )
    environment = server_environment(options, api_key=KEY, inherited=os.environ)
    process = ServerProcess(server_command(python, options), environment, folder / "log")
    process.ensure_running()
    STARTED.append(process)
    return RealServer(model, f"http://127.0.0.1:{port}", process, folder / "log")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Nobody else's tests run beside a server that stands idle."""
    try:
        return (yield)
    finally:
        if nextitem is None or not nextitem.path.is_relative_to(Path(__file__).parent):
            while STARTED:
                STARTED.pop().stop()
