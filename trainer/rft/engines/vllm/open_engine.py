"""From a run's specification to its vLLM engine: the operator's servers, or one of the run's own."""

import asyncio
import os
import secrets as randomness
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from transformers import AutoConfig, PretrainedConfig

from rft.core.devices import only_gpu, with_hidden_gpus
from rft.core.errors import RunPaused
from rft.core.spec import RunSecrets, RunSpec
from rft.engines.architecture import text_at
from rft.engines.base_model import max_context_tokens
from rft.engines.tokenizer import UnusableModel
from rft.engines.vllm.adapters import AdapterFolder
from rft.engines.vllm.engine import VllmEngine
from rft.engines.vllm.options import EngineOptions, ServerAddress
from rft.engines.vllm.pool import ServerUnfit
from rft.vllm_server.command import ServerOptions, server_command, server_environment
from rft.vllm_server.environment import is_for_cpu
from rft.vllm_server.half_precision import know_bfloat16
from rft.vllm_server.process import ServerKeepsDying, ServerProcess

ADAPTERS = "served_adapters"
"""Folder of the adapters that servers read."""
LOG = "vllm.log"
_OWN_START_S = 1800.0
"""On a GPU it reads a large model from perhaps a shared disk, and compiles. One that dies is told at once."""
_UNSAID_SHARE = 0.4
"""Of a GPU, where nobody has worked it out: an update beside it finds room."""


def open_vllm_engine(spec: RunSpec, secrets: RunSecrets, folder: Path) -> VllmEngine:
    """The engine; its servers are reached by its first call. Raises RunPaused, UnusableModel."""
    config = _config(spec)
    adapters = AdapterFolder(
        folder / ADAPTERS, run=spec.job_id, launch=randomness.token_hex(4), text_at=text_at(config)
    )
    if spec.vllm.servers:
        options = _options(spec, config, secrets.vllm_api_key)
        return VllmEngine([ServerAddress(url) for url in spec.vllm.servers], adapters, options)
    options = replace(_options(spec, config, randomness.token_urlsafe(24)), start_patience_s=_OWN_START_S)
    servers = own_servers(spec, options, folder, ports=_free_ports(_own_servers(spec)))
    for _, process in servers:
        process.ensure_running()

    async def stop() -> None:
        await asyncio.gather(*(asyncio.to_thread(process.stop) for _, process in servers))

    addresses = [ServerAddress(url, _keeping(process)) for url, process in servers]
    return VllmEngine(addresses, adapters, options, on_close=stop)


def _config(spec: RunSpec) -> PretrainedConfig:
    try:
        return AutoConfig.from_pretrained(spec.base_model)
    except (OSError, ValueError) as error:
        raise UnusableModel(f"the base model {spec.base_model} cannot be loaded: {error}") from error


def _options(spec: RunSpec, config: PretrainedConfig, api_key: str | None) -> EngineOptions:
    possible = max_context_tokens(config, spec.chat.max_context_tokens)
    return EngineOptions(
        base_model=spec.base_model,
        max_context_tokens=min(possible, spec.vllm.max_context_tokens or possible),
        api_key=api_key,
        requests_at_once=spec.vllm.requests_at_once,
        sample_s=spec.budgets.deadline_s,
    )


def _own_servers(spec: RunSpec) -> int:
    """How many: one on each GPU that was named for it."""
    return max(1, len(spec.devices.vllm)) if spec.devices is not None else 1


def own_servers(
    spec: RunSpec, options: EngineOptions, folder: Path, *, ports: Sequence[int]
) -> list[tuple[str, ServerProcess]]:
    """Address and process of each server of the run's own, on a GPU of its own where GPUs were named; none runs yet.

    Raises RunPaused where vLLM is not there.
    """
    gpus, knows_bfloat16 = spec.devices.vllm if spec.devices is not None else (), know_bfloat16()
    return [
        (
            f"http://127.0.0.1:{port}",
            _own_server(
                spec,
                options,
                port,
                folder / (LOG if number == 0 else f"vllm-{number}.log"),
                gpu,
                knows_bfloat16=knows_bfloat16,
            ),
        )
        for number, (port, gpu) in enumerate(zip(ports, gpus or (None,), strict=True))
    ]


def _own_server(
    spec: RunSpec, options: EngineOptions, port: int, log: Path, gpu: int | None, *, knows_bfloat16: bool
) -> ServerProcess:
    python = Path(spec.vllm.python)
    if not python.exists():
        raise RunPaused(
            "engine_missing",
            "vLLM is not installed on this host: `rft engine install cpu` (or gpu), then resume the job.",
        )
    server = ServerOptions(
        model=spec.base_model,
        port=port,
        is_cpu=is_for_cpu(python),
        max_context_tokens=options.max_context_tokens,
        lora_rank=spec.lora.rank,
        policy_versions=spec.policy_versions,
        requests_at_once=options.requests_at_once,
        cpu_cache_gib=spec.vllm.cpu_cache_gib,
        gpu_memory_share=spec.vllm.gpu_memory_share or _UNSAID_SHARE,
        knows_bfloat16=knows_bfloat16,
        can_sleep=spec.vllm.takes_turns,
    )
    own_gpu = {} if gpu is None else only_gpu(gpu)
    inherited = with_hidden_gpus({**os.environ, **own_gpu})
    environment = server_environment(server, api_key=options.api_key, inherited=inherited)
    return ServerProcess(server_command(python, server), environment, log)


def _keeping(process: ServerProcess) -> Callable[[], None]:
    def ensure_running() -> None:
        try:
            process.ensure_running()
        except (ServerKeepsDying, OSError) as problem:
            raise ServerUnfit(str(problem)) from problem

    return ensure_running


def _free_ports(count: int) -> list[int]:
    with ExitStack() as probes:
        found = [probes.enter_context(socket.socket()) for _ in range(count)]
        for probe in found:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in found]
