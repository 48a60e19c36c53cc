"""Engines over scripted vLLM servers, and what is asked of them."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from rft.engines.vllm.adapters import AdapterFolder
from rft.engines.vllm.engine import VllmEngine
from rft.engines.vllm.options import EngineOptions, ServerAddress
from rft.rollouts.sampler import SampleRequest
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.vllm_server import ScriptedVllm
from rft.vllm_server.release import VERSION

STOP = 5


def scripted(**options: Any) -> ScriptedVllm:
    chosen: dict[str, Any] = {"version": VERSION, "root": "/models/tiny", **options}
    return ScriptedVllm(**chosen)


@asynccontextmanager
async def serving(servers: Sequence[ScriptedVllm], folder: Path, **options: Any) -> AsyncGenerator[VllmEngine]:
    """An engine over these servers, each on a socket of its own."""
    async with AsyncExitStack() as stack:
        urls = [(await stack.enter_async_context(LoopbackEndpoint(server))).base_url for server in servers]
        engine = engine_over(urls, folder, **options)
        try:
            yield engine
        finally:
            await engine.close()


def engine_over(
    urls: Sequence[str], folder: Path, *, ensure_running: Callable[[], None] | None = None, **options: Any
) -> VllmEngine:
    """`ensure_running` starts the servers, where they are our own."""
    chosen: dict[str, Any] = {
        "base_model": "/home/me/tiny",
        "max_context_tokens": 512,
        "poll_s": 0.02,
        "patience_s": 60.0,
        **options,
    }
    return VllmEngine(
        [ServerAddress(url, ensure_running) for url in urls],
        AdapterFolder(folder / "adapters", run="job", launch="1"),
        EngineOptions(**chosen),
    )


def ask(
    rollout: int = 0, *, group: int = 0, seed: int = 0, version: int | None = None, **changes: Any
) -> SampleRequest:
    prompt = tuple(range(20, 40 + rollout))
    return SampleRequest(
        f"r{rollout}", prompt, 30, (STOP,), seed, rollout_id=f"r{rollout}", group_id=f"g{group}",
        policy_version=version, **changes,
    )  # fmt: skip


def adapter(folder: Path, rank: int = 8) -> Path:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": rank}))
    (folder / "adapter_model.safetensors").write_bytes(b"weights")
    return folder
