"""Input items in every order that clients send them, and in those that no model could have been asked with."""

from pathlib import Path
from typing import Any

import pytest

from rft.core.messages import Message
from rft.platform.api.errors import BadRequest
from rft.platform.serving.responses.items import ITEM_KEY_LENGTH, ReadInput, read_items
from rft.platform.serving.responses.sealed_turns import TurnSeal
from rft.platform.store.secret_box import SecretBox
from rft.serving_wire.records import SampledTurn

A, B = "a" * ITEM_KEY_LENGTH, "b" * ITEM_KEY_LENGTH
ASKED: Any = {"role": "user", "content": "How much?"}
SAMPLED = SampledTurn(
    prompt_sha256="0", token_ids=(1, 2), said_sha256="1", reasoning="", wire_ids=("call_1", None, "call_2")
)


@pytest.fixture
def box(tmp_path: Path) -> SecretBox:
    return SecretBox.at(tmp_path)


@pytest.fixture
def seal(box: SecretBox) -> TurnSeal:
    return TurnSeal(box, "local", "model")


def call(call_id: str, key: str = "", number: int = 0, **more: Any) -> dict[str, Any]:
    item_id = {"id": f"fc_{key}{number:02d}"} if key else {}
    return {"type": "function_call", "call_id": call_id, "name": "search", "arguments": "{}", **item_id, **more}


def result(call_id: str, output: Any = "7") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def thought(text: str = "hm", key: str = A, **more: Any) -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "id": f"rs_{key}", "summary": [], "content": content, **more}


def text(said: str, key: str = A) -> dict[str, Any]:
    content = [{"type": "output_text", "text": said, "annotations": []}]
    return {"type": "message", "id": f"msg_{key}", "role": "assistant", "status": "completed", "content": content}


def part(said: str) -> dict[str, Any]:
    return {"type": "input_text", "text": said}


def shape(read: ReadInput) -> list[str]:
    return [_shape(message) for message in read.messages]


def _shape(message: Message) -> str:
    calls = ",".join(call.call_id for call in message.tool_calls)
    parts = (message.role, message.reasoning_content, message.content, calls, message.tool_call_id or "")
    return " ".join(part for part in parts if part)


def test_items_of_a_turn_become_one_message(seal: TurnSeal) -> None:
    items: list[Any] = [
        {"role": "developer", "content": [part("Be "), part("brief.")]},
        ASKED, thought(), text("I look."), call("1", A), call("2", A, 1), result("1"), result("2", [part("8")]),
        thought("aha", B), text("Done.", B),
    ]  # fmt: skip
    assert shape(read_items(items, seal)) == [
        "developer Be brief.",
        "user How much?",
        "assistant hm I look. 1,2",
        "tool 7 1",
        "tool 8 2",
        "assistant aha Done.",
    ]


def test_results_may_come_in_any_order(seal: TurnSeal) -> None:
    items: list[Any] = [ASKED, call("1"), call("2"), result("2", "b"), result("1", "a")]
    assert shape(read_items(items, seal)) == ["user How much?", "assistant 1,2", "tool b 2", "tool a 1"]


def test_calls_answered_one_by_one_are_put_together_where_they_are_known_to_be_of_one_turn(seal: TurnSeal) -> None:
    one = ["user How much?", "assistant 1,2", "tool 7 1", "tool 7 2"]
    two = ["user How much?", "assistant 1", "tool 7 1", "assistant 2", "tool 7 2"]
    assert shape(read_items([ASKED, call("1", A), result("1"), call("2", A, 1), result("2")], seal)) == one
    assert shape(read_items([ASKED, call("1", A), result("1"), call("2", B), result("2")], seal)) == two
    assert shape(read_items([ASKED, call("1"), result("1"), call("2"), result("2")], seal)) == two


def test_calls_answered_one_by_one_are_put_together_by_what_was_sealed(seal: TurnSeal) -> None:
    sealed = thought("", encrypted_content=seal.seal(SAMPLED))
    items: list[Any] = [ASKED, sealed, call("call_1"), result("call_1"), call("call_2"), result("call_2")]
    read = read_items(items, seal)
    assert shape(read)[1] == "assistant call_1,call_2"
    assert read.sampled_turns == {1: SAMPLED}
    assert read.reasoning_ids == {1: f"rs_{A}"}


def test_each_turn_has_what_was_sealed_with_it(seal: TurnSeal) -> None:
    first, second = (SAMPLED.model_copy(update={"token_ids": (number,)}) for number in (1, 2))
    items: list[Any] = [
        ASKED, thought(encrypted_content=seal.seal(first)), call("1"), result("1"),
        thought(encrypted_content=seal.seal(second)), call("2"), result("2"),
    ]  # fmt: skip
    assert read_items(items, seal).sampled_turns == {1: first, 3: second}


def test_a_turn_of_another_model_is_rendered_and_told(box: SecretBox, seal: TurnSeal) -> None:
    sealed = thought(encrypted_content=TurnSeal(box, "local", "another").seal(SAMPLED))
    read = read_items([ASKED, sealed, call("1"), result("1")], seal)
    assert read.sampled_turns == {}
    assert [(told.id, told.reason) for told in read.transformations] == [(f"rs_{A}", "model_mismatch")]


def test_what_was_not_sealed_here_is_refused(box: SecretBox, seal: TurnSeal, tmp_path: Path) -> None:
    own = seal.seal(SAMPLED)
    another_home = tmp_path / "other"
    another_home.mkdir()
    foreign = [
        "gAAAAABo-of-somebody-else",
        own[:-8] + "AAAAAAA=",
        own[:40] + ("A" if own[40] != "A" else "B") + own[41:],
        "é",
        TurnSeal(SecretBox.at(another_home), "local", "model").seal(SAMPLED),
        TurnSeal(box, "another", "model").seal(SAMPLED),
        box.seal_text('{"tools": {}}').decode(),
    ]
    for sealed in foreign:
        with pytest.raises(BadRequest) as raised:
            read_items([ASKED, thought(encrypted_content=sealed), call("1"), result("1")], seal)
        assert (raised.value.param, raised.value.code) == ("input[1].encrypted_content", "invalid_encrypted_content")
        assert sealed not in raised.value.message


REFUSED: list[tuple[list[Any], str]] = [
    ([ASKED, result("1")], "input[1].call_id"),
    ([ASKED, result("1"), call("1")], "input[1].call_id"),
    ([ASKED, call("1"), result("1"), result("1")], "input[3].call_id"),
    ([ASKED, call("1"), result("1"), ASKED, result("1")], "input[4].call_id"),
    ([ASKED, call("1")], "input"),
    ([ASKED, call("1"), ASKED], "input[2]"),
    ([ASKED, call("1"), text("Done.")], "input[2]"),
    ([ASKED, call("1", A), result("1"), call("2", A, 1)], "input"),
    ([ASKED, call("1"), result("1"), call("1")], "input[3].call_id"),
    ([ASKED, thought()], "input[1]"),
    ([ASKED, thought(), ASKED], "input[1]"),
    ([ASKED, thought(), result("1")], "input[2].call_id"),
    ([ASKED, call("")], "input[1].call_id"),
    ([ASKED, {"type": "function_call", "call_id": "1", "name": "f"}], "input[1].arguments"),
    ([ASKED, call("1"), result("1", None)], "input[2].output"),
    ([ASKED, call("1"), result("1", [{"type": "input_image", "image_url": "x"}])], "input[2].output[0].type"),
    ([{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}], "input[0].content[0].type"),
    ([{"role": "user", "content": [{"type": "input_text"}]}], "input[0].content[0].text"),
    ([{"role": "tool", "content": "7"}], "input[0].role"),
    ([{"role": "user"}], "input[0].content"),
    ([{"type": "item_reference", "id": "rs_1"}], "input[0].type"),
    ([{"type": "web_search_call", "id": "ws_1"}], "input[0].type"),
    ([{}], "input[0].type"),
    (["How much?"], "input[0]"),
    ([ASKED, thought(content="hm", encrypted_content=1), text("x")], "input[1].encrypted_content"),
]


@pytest.mark.parametrize(("items", "param"), REFUSED, ids=[param + str(i) for i, (_, param) in enumerate(REFUSED)])
def test_what_no_model_could_be_asked_with_names_its_place(items: list[Any], param: str, seal: TurnSeal) -> None:
    with pytest.raises(BadRequest) as raised:
        read_items(items, seal)
    assert (raised.value.param, raised.value.code) == (param, "invalid_value")


def test_ids_of_others_put_nothing_together(seal: TurnSeal) -> None:
    """They may begin alike and be of two turns."""
    items: list[Any] = [
        ASKED,
        call("1", id="fc_" + "0" * 48),
        result("1"),
        call("2", id="fc_" + "0" * 47 + "1"),
        result("2"),
    ]
    assert shape(read_items(items, seal)) == [
        "user How much?", "assistant 1", "tool 7 1", "assistant 2", "tool 7 2",
    ]  # fmt: skip
