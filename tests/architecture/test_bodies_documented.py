"""The JSON that `docs/` shows is what the code sends and takes."""

import json
import re
from collections.abc import Iterator
from typing import cast, get_args

import pytest
from pydantic import JsonValue, TypeAdapter

from rft.core.base import JsonObject
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import Message, Role, ToolCall
from rft.core.spec import ToolServer
from rft.egress.endpoint_client import Answer, EndpointClient
from rft.grader_gateway import contract as graders
from rft.platform.orders.grader_schemas import AnyGrader, Grader
from rft.tool_gateway import contract as tools
from rft.tool_gateway.callbacks import RolloutCallbacks
from tests.shared.written_codes import ROOT

OF_SERVERS = "## What your servers get and answer"
OF_GRADERS = "# Graders"

TRACE = FinishedTrace(
    messages=(Message(role=Role.USER, content="?"), Message(role=Role.ASSISTANT, content="41")),
    prompt_messages=1,
    tools=(),
    finish_reason="stop",
    model="...",
)


def shown(page: str, heading: str) -> list[JsonObject]:
    """The objects of a section's JSON blocks, one after the other."""
    _, found, section = (ROOT / "docs" / page).read_text().partition(f"{heading}\n")
    assert found, f"no {heading!r}"
    return list(_objects("\n".join(re.findall(r"^```json\n(.*?)^```", section.partition("\n## ")[0], re.M | re.S))))


def _objects(text: str) -> Iterator[JsonObject]:
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        found, at = decoder.raw_decode(text, at)
        yield cast("JsonObject", found)


def _names(value: JsonValue) -> JsonValue:
    """What the fields are called; of lists and texts, nothing."""
    return {name: _names(below) for name, below in value.items()} if isinstance(value, dict) else None


def test_the_page_shows_the_call_that_a_tool_gets() -> None:
    page = shown("contract.md", OF_SERVERS)[0]
    sent = tools.to_wire(ToolCall(call_id="call_", name="search", arguments="{}"), item={}, trace_id="trace_")
    assert [*page] == [*sent]


def test_the_page_shows_the_sample_that_a_grader_gets() -> None:
    page = shown("contract.md", OF_SERVERS)[1]
    item: JsonObject = {"messages": [], "answer": 41}
    sent = graders.to_wire(TRACE, item=item, trace_id="trace_")
    assert _names(page) == _names(sent)
    assert cast("JsonObject", page["sample"])["choices"] == cast("JsonObject", sent["sample"])["choices"]


class _Heard:
    """A client that keeps what it is given to send."""

    def __init__(self) -> None:
        self.bodies: list[JsonObject] = []

    async def post_json(self, endpoint: object, payload: JsonObject, **_: object) -> Answer[bool]:
        self.bodies.append(payload)
        return Answer(True, attempts=1, elapsed_s=0.0)


async def test_the_page_shows_what_callbacks_are_told() -> None:
    heard = _Heard()
    tool = ToolServer(name="search", server_url="https://x.example", callback_url="https://x.example/told")
    callbacks = RolloutCallbacks(cast("EndpointClient", heard), [tool], job_id="ftjob-...")
    await callbacks.started(item={}, trace_id="trace_...")
    await callbacks.tell_end(trace_id="trace_...", outcome=Grade(reward=0.5, grader="any"))
    assert heard.bodies == shown("contract.md", OF_SERVERS)[2:]


@pytest.mark.parametrize("grader", shown("graders.md", OF_GRADERS), ids=lambda grader: str(grader["type"]))
def test_the_page_shows_a_grader_that_is_taken(grader: JsonObject) -> None:
    assert TypeAdapter[AnyGrader](Grader).validate_python(grader).model_extra == {}


def test_the_page_shows_every_kind_of_grader() -> None:
    kinds = {kind.model_fields["type"].annotation for kind in get_args(get_args(Grader)[0])}
    assert {str(grader["type"]) for grader in shown("graders.md", OF_GRADERS)} == {get_args(kind)[0] for kind in kinds}
