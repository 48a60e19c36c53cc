"""Trainers come first: where memory is short, serving processes of this host end once they answer nobody."""

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from rft.platform.lifecycle.owner import is_alive
from rft.platform.orders.devices import nvidia_gpus, take_gpu_of_chat
from rft.platform.serving.memory import free_bytes, needed_bytes
from rft.platform.settings import Settings
from rft.serving_wire.endpoint_file import read_endpoint
from rft.serving_wire.lines import write_line
from rft.serving_wire.records import GiveWay, ServingEndpoint

_LOG = logging.getLogger(__name__)
_PATIENCE_S = 5.0
_ENDS_S, _LOOK_S = 20.0, 0.1
"""How long one may take that nobody is answered by, its vLLM server included."""


async def give_way_to_trainer(settings: Settings, base_model: Path, free: int | None = None) -> int:
    """Ask all of them where a trainer of this model would not leave the reserve free, or takes their GPU; how many
    were asked.

    `free`: bytes, where the system is not to be asked. Who answers now is not cut off. Nobody waits for their ends
    where memory alone is short: a trainer takes it bit by bit. What it and its server may have of a GPU is worked out
    once, so for a while the ends of those on it are waited for.
    """
    left, takes_gpu = free_bytes() if free is None else free, take_gpu_of_chat(settings, nvidia_gpus())
    is_short = left is not None and left < needed_bytes(base_model) + settings.serving_reserve_bytes
    if not is_short and not takes_gpu:
        return 0
    endpoints = await asyncio.to_thread(lambda: list(_endpoints(settings)))
    await asyncio.gather(*(ask_to_give_way(endpoint) for endpoint in endpoints))
    if endpoints:
        what = "the GPU is" if takes_gpu else "memory is short"
        _LOG.info("%s for a trainer of %s: %s serving processes end", what, base_model, len(endpoints))
    if takes_gpu:
        await _until_ended([endpoint.pid for endpoint in endpoints])
    return len(endpoints)


async def _until_ended(pids: Sequence[int]) -> None:
    give_up_at = time.monotonic() + _ENDS_S
    while any(map(is_alive, pids)):
        if time.monotonic() > give_up_at:
            return
        await asyncio.sleep(_LOOK_S)


def _endpoints(settings: Settings) -> Iterator[ServingEndpoint]:
    if not settings.serving_dir.is_dir():
        return
    for folder in settings.serving_dir.iterdir():
        if (endpoint := read_endpoint(folder)) is not None:
            yield endpoint


async def ask_to_give_way(endpoint: ServingEndpoint) -> None:
    """It ends as soon as it answers nobody."""
    # One that went away meanwhile has given way, too.
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            _, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
            try:
                await write_line(writer, GiveWay(token=endpoint.token))
            finally:
                writer.close()
