"""Trainers come first: where memory is short, serving processes of this host end once they answer nobody."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rft.platform.serving.memory import free_bytes, needed_bytes
from rft.platform.settings import Settings
from rft.serving_wire.endpoint_file import read_endpoint
from rft.serving_wire.lines import write_line
from rft.serving_wire.records import GiveWay, ServingEndpoint

_LOG = logging.getLogger(__name__)
_PATIENCE_S = 5.0


async def give_way_to_trainer(settings: Settings, base_model: Path, free: int | None = None) -> int:
    """Ask all of them where a trainer of this model would not leave the reserve free; how many were asked.

    `free`: bytes, where the system is not to be asked. Nobody waits for their ends: a trainer takes its memory bit by
    bit, and who answers now is not cut off.
    """
    left = free_bytes() if free is None else free
    if left is None or left >= needed_bytes(base_model) + settings.serving_reserve_bytes:
        return 0
    endpoints = await asyncio.to_thread(lambda: list(_endpoints(settings)))
    await asyncio.gather(*(ask_to_give_way(endpoint) for endpoint in endpoints))
    if endpoints:
        _LOG.info("memory is short for a trainer of %s: %s serving processes end", base_model, len(endpoints))
    return len(endpoints)


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
