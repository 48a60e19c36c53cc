"""`rft engine ...`: the environment of vLLM, a server of it, and whether those that are configured will do."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rft.platform.cli.arguments import HomeOption
from rft.vllm_server.release import Device

if TYPE_CHECKING:
    from rft.platform.settings import Settings

engine_app = typer.Typer(help="vLLM: install it, serve a model with it, check it.", no_args_is_help=True)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@engine_app.command("install")
def install_engine(
    device: Annotated[Device, typer.Argument(help="What it computes on.")], home: HomeOption = None
) -> None:
    """Make an environment of its own for vLLM: three gigabytes on a CPU, about nine on a GPU."""
    from rft.platform.cli.session import chosen_settings, give_up
    from rft.vllm_server.environment import environment_of
    from rft.vllm_server.install import InstallFailed, install

    target = environment_of(chosen_settings(home).home)
    try:
        install(target, device)
    except InstallFailed as problem:
        give_up(str(problem))
    typer.echo(f"installed in {target}; jobs use it with RFT_ENGINE=vllm")


@engine_app.command("serve")
def serve_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A base model's name here, its directory or hub name.")],
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port.")] = 8000,
    lora_rank: Annotated[int, typer.Option("--lora-rank", min=1, help="Largest rank of an adapter.")] = 16,
    gpu_memory_share: Annotated[
        float, typer.Option("--gpu-memory-share", min=0.05, max=1.0, help="What it may take of its GPU's memory.")
    ] = 0.9,
    home: HomeOption = None,
) -> None:
    """Serve a base model to the jobs that train it, until Ctrl-C; its key is RFT_VLLM_API_KEY."""
    from rft.platform.cli.session import chosen_settings, give_up
    from rft.platform.orders.base_models import base_models
    from rft.vllm_server.command import ServerOptions, server_command, server_environment
    from rft.vllm_server.environment import is_for_cpu

    settings = chosen_settings(home)
    if host not in _LOOPBACK and settings.vllm_api_key is None:
        give_up(f"whoever reaches {host} could load adapters from this machine: set RFT_VLLM_API_KEY first")
    python = _python(settings)
    options = ServerOptions(
        model=base_models(settings).get(model, model),
        port=port,
        is_cpu=is_for_cpu(python),
        max_context_tokens=settings.vllm_max_context_tokens,
        lora_rank=lora_rank,
        requests_at_once=settings.vllm_requests_at_once,
        cpu_cache_gib=settings.vllm_cpu_cache_gib,
        gpu_memory_share=gpu_memory_share,
        host=host,
    )
    command = server_command(python, options)
    os.execve(command[0], command, server_environment(options, api_key=settings.vllm_api_key, inherited=os.environ))


@engine_app.command("check")
def check_engine(home: HomeOption = None) -> None:
    """Tell whether vLLM is installed, or what each server of RFT_VLLM_SERVERS serves; 1 where something is wrong."""
    import asyncio

    from rft.platform.cli.session import chosen_settings, give_up
    from rft.vllm_server.inspection import Inspected, inspect

    settings = chosen_settings(home)
    if not settings.vllm_servers:
        python = _python(settings)
        typer.echo(f"vLLM is installed: {python.parent.parent}")
        return

    async def inspect_all() -> list[Inspected]:
        return await asyncio.gather(*(inspect(url, settings.vllm_api_key) for url in settings.vllm_servers))

    found = asyncio.run(inspect_all())
    for one in found:
        typer.echo(f"{one.server}: {one.message}")
    if not all(one.is_fit for one in found):
        give_up("not every server can be used")


def _python(settings: "Settings") -> Path:
    from rft.platform.cli.session import give_up
    from rft.vllm_server.environment import python_of

    python = settings.vllm_python or python_of(settings.home)
    if not python.exists():
        give_up(f"there is no vLLM at {python}: `rft engine install cpu` (or gpu) makes it")
    return python
