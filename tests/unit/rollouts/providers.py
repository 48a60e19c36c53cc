"""A provider's model over real sockets, for tests of what is made of its answers."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from rft.core.base import JsonObject
from rft.core.egress_settings import EgressSettings
from rft.core.failure import Failure
from rft.core.messages import Message, Role, ToolSchema
from rft.core.spec import RetryBudget
from rft.rollouts.chat_policy import ChatRequest, ChatSampling, ChatTurn
from rft.rollouts.provider_policy import ProviderEndpoint, ProviderPolicy, open_provider_client
from rft.testing.chat_policies import chat_call
from rft.testing.faults import FaultPlan
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.provider import Said, Script, ScriptedProvider

KEY = "sk-live-0123456789abcdef"
SEARCH = [chat_call("search", '{"q": 1}')]
QUESTION = Message(role=Role.USER, content="How much?")
TOOL = ToolSchema(name="search", description="Looks up.", parameters={"type": "object"})


async def _no_wait(_wait_s: float) -> None:
    return None


@asynccontextmanager
async def policy_of(
    script: Script | Sequence[Said],
    *,
    model: str = "small",
    api_key: str | None = KEY,
    retries: int = 2,
    faults: FaultPlan | None = None,
    **changes: Any,
) -> AsyncGenerator[tuple[ProviderPolicy, ScriptedProvider]]:
    provider = ScriptedProvider(script, api_key=KEY, faults=faults)
    retry = RetryBudget(max_retries=retries)
    async with (
        LoopbackEndpoint(provider) as loopback,
        open_provider_client(EgressSettings(), retry=retry) as client,
    ):
        client.sleep = _no_wait
        endpoint = ProviderEndpoint(name="acme", base_url=f"{loopback.base_url}/v1", api_key=api_key, timeout_s=60)
        yield ProviderPolicy(client, replace(endpoint, **changes), model), provider


def asked(*messages: Message, trace_id: str = "trace_1", **sampling: Any) -> ChatRequest:
    return ChatRequest(
        messages=messages or (QUESTION,), tools=(TOOL,), sampling=ChatSampling(**sampling), trace_id=trace_id
    )


async def said_to(script: Script | Sequence[Said], **more: Any) -> ChatTurn | Failure:
    async with policy_of(script, **more) as (policy, _):
        return await policy.complete(asked())


async def turn_of(choice: JsonObject) -> ChatTurn:
    said = await said_to([choice])
    assert isinstance(said, ChatTurn), said
    return said


def sent(provider: ScriptedProvider) -> dict[str, Any]:
    return cast("dict[str, Any]", provider.requests[-1])
