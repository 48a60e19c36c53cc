"""`rft engine ...`: the environment of vLLM, a server of it, and whether those that are configured will do."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from rft.platform.cli.command import Group
from rft.platform.cli.inputs import CannotDo
from rft.vllm_server.release import Device

if TYPE_CHECKING:
    from rft.platform.settings import Settings

engine_app = Group("vLLM: install it, serve a model with it, check it.")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@engine_app.add_on_host("install")
def install_engine(settings: "Settings", device: Annotated[Device, Argument(help="What it computes on.")]) -> None:
    """Make an environment of its own for vLLM: three gigabytes on a CPU, about nine on a GPU."""
    from rft.vllm_server.environment import environment_of
    from rft.vllm_server.install import install

    target = environment_of(settings.home)
    install(target, device)
    typer.echo(f"installed in {target}; jobs use it with RFT_ENGINE=vllm")


@engine_app.add_on_host("serve")
def serve_model(
    settings: "Settings",
    model: Annotated[str, Argument(metavar="MODEL", help="A base model's name here, its directory or hub name.")],
    host: Annotated[str, Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option("--port", min=1, max=65535, help="Port.")] = 8000,
    lora_rank: Annotated[int, Option("--lora-rank", min=1, help="Largest rank of an adapter.")] = 16,
    policy_versions: Annotated[
        int,
        Option("--policy-versions", min=1, help="Adapters it samples from at once: max_staleness + 2 of each job."),
    ] = 4,
    gpu_memory_share: Annotated[
        float, Option("--gpu-memory-share", min=0.05, max=1.0, help="What it may take of its GPU's memory.")
    ] = 0.9,
) -> None:
    """Serve a base model to the jobs that train it, until Ctrl-C; its key is RFT_VLLM_API_KEY."""
    from rft.platform.orders.base_models import base_models
    from rft.vllm_server.command import ServerOptions, server_command, server_environment
    from rft.vllm_server.environment import is_for_cpu
    from rft.vllm_server.half_precision import know_bfloat16

    if host not in _LOOPBACK and not settings.vllm_api_key:
        raise CannotDo(f"whoever reaches {host} could load adapters from this machine: set RFT_VLLM_API_KEY first")
    python = _python(settings)
    options = ServerOptions(
        model=base_models(settings).get(model, model),
        port=port,
        is_cpu=is_for_cpu(python),
        max_context_tokens=settings.vllm_max_context_tokens,
        lora_rank=lora_rank,
        policy_versions=policy_versions,
        requests_at_once=settings.vllm_requests_at_once,
        cpu_cache_gib=settings.vllm_cpu_cache_gib,
        gpu_memory_share=gpu_memory_share,
        knows_bfloat16=know_bfloat16(),
        host=host,
    )
    command = server_command(python, options)
    os.execve(command[0], command, server_environment(options, api_key=settings.vllm_api_key, inherited=os.environ))


@engine_app.add_on_host("check")
def check_engine(settings: "Settings") -> None:
    """Tell whether vLLM is installed, or what each server of RFT_VLLM_SERVERS serves; 1 where something is wrong."""
    import asyncio

    from rft.vllm_server.inspection import Inspected, inspect

    if not settings.vllm_servers:
        typer.echo(f"vLLM is installed: {_python(settings).parent.parent}")
        return

    async def inspect_all() -> list[Inspected]:
        return await asyncio.gather(*(inspect(url, settings.vllm_api_key) for url in settings.vllm_servers))

    found = asyncio.run(inspect_all())
    for one in found:
        typer.echo(f"{one.server}: {one.message}")
    if not all(one.is_fit for one in found):
        raise CannotDo("not every server can be used")


def _python(settings: "Settings") -> Path:
    from rft.vllm_server.environment import chosen_python

    python = chosen_python(settings.vllm_python, settings.home)
    if not python.exists():
        raise CannotDo(f"there is no vLLM at {python}: `rft engine install cpu` (or gpu) makes it")
    return python
