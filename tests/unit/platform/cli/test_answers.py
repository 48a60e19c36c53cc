"""How a resource's fields are written, and how values are shown by the end of their names."""

from typing import Any

import pytest

from rft.platform.cli.answers import Answer, NotUnderstood, Resource

TOOL: dict[str, Any] = {
    "id": "tool_1",
    "name": "search",
    "created_at": 0,
    "timeout_s": 185,
    "latency_p50_ms": 7.4,
    "error_share": 0.25,
    "bytes": 1500,
    "rows": 1200,
    "seed": 1200,
    "reward": 0.5,
    "is_ok": True,
    "status": "active",
    "headers": {"a": 1, "b": "x"},
    "tags": ["p", "q"],
    "empty": [],
    "nothing": None,
    "health": {"status": "failing", "attempts": 2, "last_failure": None},
}


def shown(field: str) -> Any:
    """What a page shows of one field."""
    return dict(Resource(field).facts(Answer(TOOL))).get("it")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("name", "search"),
        ("created_at", None),
        ("timeout_s", "3 min 5 s"),
        ("latency_p50_ms", "7 ms"),
        ("error_share", "25.0%"),
        ("bytes", "1.5 kB"),
        ("rows", "1,200"),
        ("seed", "1200"),
        ("reward", "0.500"),
        ("is_ok", "True"),
        ("headers", "a=1, b=x"),
        ("tags", "p, q"),
        ("empty", None),
        ("nothing", None),
        ("health.attempts", "2"),
        ("health.nobody.knows", None),
        ("{reward:.1f}", "0.5"),
        ("{seed:,} of {rows}", "1,200 of 1,200"),
        ("{health.attempts:call}", "2 calls"),
        ("{health.attempts:g}", "2"),
        ("{name} after {nothing}", "search after -"),
        ("{nothing} and {health.last_failure}", None),
        ("status", (("active", "green"),)),
        ("health.status", (("failing", "red"),)),
        ("is {status}", "is active"),
    ],
)
def test_a_value_is_shown_by_the_end_of_its_name_and_its_type(path: str, text: Any) -> None:
    assert shown(f"it={path}") == text


def test_a_title_alone_is_its_function_or_its_path_and_an_exclamation_mark_is_red() -> None:
    resource = Resource("name; timeout s; !seed; rows", special={"rows": lambda tool: f"{tool.need('rows', int)}!"})
    assert list(resource.facts(Answer(TOOL))) == [
        ("name", "search"),
        ("timeout s", "3 min 5 s"),
        ("seed", (("1200", "red"),)),
        ("rows", "1200!"),
    ]


def test_columns_are_facts_by_their_titles_or_fields_of_their_own() -> None:
    resource = Resource("tool=id; state=status; created=created_at", columns="tool; state=health.status; >calls=seed")
    columns = resource.table()
    assert [(column.title, column.is_id, column.is_figure) for column in columns] == [
        ("tool", True, False),
        ("state", False, False),
        ("calls", False, True),
    ]
    assert [column.show(Answer(TOOL)) for column in columns] == ["tool_1", (("failing", "red"),), "1200"]


@pytest.mark.parametrize("path", ["{name:.1f}", "name.first", "{headers:.1f}"])
def test_a_value_of_another_type_is_not_understood(path: str) -> None:
    with pytest.raises(NotUnderstood, match="is not understood"):
        shown(f"it={path}")


def test_a_number_beyond_all_is_not_understood() -> None:
    huge = Answer({"latency_ms": 10**400, "reward": 10**400})
    with pytest.raises(NotUnderstood):
        list(Resource("latency_ms").facts(huge))
    with pytest.raises(NotUnderstood):
        huge.get("reward", float)
