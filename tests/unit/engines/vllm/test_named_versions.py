"""What a rollout worker knows of versions that its trainer publishes."""

import asyncio

import pytest

from rft.engines.vllm.client import ServerClient, ServerLost, open_http
from rft.engines.vllm.named_versions import NamedVersions
from rft.engines.vllm.pool import Server
from rft.engines.vllm.wire import ServedModel


async def test_a_server_that_came_back_needs_only_what_is_sampled_from() -> None:
    versions = NamedVersions()
    for version in (1, 2, 3):
        versions.name(version, f"job.v{version}")
    versions.use.hold("r1", 2)
    async with open_http() as http:
        server = Server(ServerClient("http://127.0.0.1:9", http, api_key=None, sample_s=1.0), asyncio.Semaphore(1))
        with pytest.raises(ServerLost, match=r"does not know job\.v2 yet"):
            await versions.teach(server, [served("base")])
        await versions.teach(server, [served("base"), served("job.v2")])
        versions.use.release("r1")
        await versions.teach(server, [served("base")])


def test_an_older_version_is_named_too_and_newest_stays() -> None:
    versions = NamedVersions()
    versions.name(4, "job.v4")
    versions.name(3, "job.v3")
    versions.name(0, None)
    assert versions.use.newest == 4
    assert versions.use.live == {0, 3, 4}
    assert versions.adapter_name(3) == "job.v3"
    assert versions.use.hold("r1", 3)


def served(name: str) -> ServedModel:
    """As a server lists it."""
    return ServedModel(id=name, root="/models/tiny", parent=None, max_model_len=512)
