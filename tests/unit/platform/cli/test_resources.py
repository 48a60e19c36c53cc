"""Every path that the command line reads is one that the server's schemas have, and no answer ends in a traceback."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from rich.console import Console

from rft.platform.checkpoints.schemas import CheckpointObject
from rft.platform.cli import eval_resources, job_resources, resources, rollout_resources
from rft.platform.cli.answers import Answer, NotUnderstood, Resource
from rft.platform.cli.chart import curves_page
from rft.platform.cli.client import Sent
from rft.platform.cli.pages import page, rollout_page, table
from rft.platform.cli.rehearsals import ENDPOINT_REPORT, show_report
from rft.platform.cli.watch import Watched, event_lines
from rft.platform.dry_runs.objects import GraderRunObject, ToolRunObject
from rft.platform.evals.run_objects import ComparisonObject, EvalRunObject, OutputItemObject
from rft.platform.evals.schemas import EvalObject
from rft.platform.files.schemas import FileObject, ProblemObject
from rft.platform.jobs.objects import EventObject, JobObject
from rft.platform.models.schemas import ModelObject, PermissionObject
from rft.platform.registry.schemas import GraderObject, GraderTested, ToolObject, ToolTested
from rft.platform.regrades.objects import RegradeObject
from rft.platform.rehearsals.schemas import RehearsalObject
from rft.platform.rollouts.curve_objects import CurvesObject
from rft.platform.rollouts.ledger_objects import AttemptObject, EndpointHealth
from rft.platform.rollouts.objects import RolloutDetail, RolloutSummary, StepObject
from rft.platform.signing.schemas import SigningSecretObject
from rft.rollouts.rehearsal_report import EndpointReport, RehearsalReport
from tests.shared.examples import examples

SHOWN: dict[str, tuple[Resource, type[BaseModel]]] = {
    "job": (job_resources.JOB, JobObject),
    "checkpoint": (job_resources.CHECKPOINT, CheckpointObject),
    "endpoint": (job_resources.ENDPOINT, EndpointHealth),
    "rollout": (rollout_resources.ROLLOUT, RolloutSummary),
    "attempt": (rollout_resources.ATTEMPT, AttemptObject),
    "step": (job_resources.STEP, StepObject),
    "regrade": (rollout_resources.REGRADE, RegradeObject),
    "file": (resources.FILE, FileObject),
    "bad line": (resources.BAD_LINE, ProblemObject),
    "model": (resources.MODEL, ModelObject),
    "permission": (resources.PERMISSION, PermissionObject),
    "signing secret": (resources.SIGNING_SECRET, SigningSecretObject),
    "rehearsal": (resources.REHEARSAL, RehearsalObject),
    "eval": (eval_resources.EVAL, EvalObject),
    "eval run": (eval_resources.EVAL_RUN, EvalRunObject),
    "output item": (eval_resources.OUTPUT_ITEM, OutputItemObject),
    "comparison": (eval_resources.COMPARISON, ComparisonObject),
    "tool": (resources.TOOL, ToolObject),
    "grader": (resources.GRADER, GraderObject),
    "tool test": (resources.TRIED_TOOL, ToolTested),
    "grader test": (resources.TRIED_GRADER, GraderTested),
    "endpoint report": (ENDPOINT_REPORT, EndpointReport),
    "tool run": (resources.RUN_TOOL, ToolRunObject),
    "grader run": (resources.RUN_GRADER, GraderRunObject),
}
CONSOLE = Console(width=1000, force_terminal=False)
OPEN = {"method", "metrics"}
"""What the customer ordered and the flat metrics are objects without fields of their own in the schema."""


class Checked(dict[str, Any]):
    """A JSON object that complains when it is asked for what its schema does not have."""

    def get(self, name: str, default: Any = None) -> Any:
        """The value; KeyError for a name that no such object has."""
        return self[name]


class Open(dict[str, Any]):
    """A JSON object that may hold anything."""


def example(schema: dict[str, Any], defs: dict[str, Any], name: str = "") -> Any:
    """A value of a schema with every field filled."""
    if "$ref" in schema:
        return example(defs[schema["$ref"].rpartition("/")[2]], defs, name)
    choices = [part for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key, [])]
    if choices:
        # A grade or a failure: one that has the fields of both.
        made = [example(part, defs, name) for part in choices if part.get("type") != "null"]
        return Checked({k: v for one in made for k, v in one.items()}) if isinstance(made[0], Checked) else made[0]
    return plain(schema, defs, name)


def plain(schema: dict[str, Any], defs: dict[str, Any], name: str) -> Any:
    """A value of a schema that offers no choice."""
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    match schema.get("type"):
        case "object" if "properties" in schema:
            return Checked({field: example(part, defs, field) for field, part in schema["properties"].items()})
        case "object":
            values = schema.get("additionalProperties")
            return Open({"some": example(values, defs)} if isinstance(values, dict) and name not in OPEN else {})
        case "array":
            return [example(schema.get("items", {}), defs, name)]
        case "integer":
            return 3
        case "number":
            return 0.5
        case "boolean":
            return True
        case _:
            return "text"


def whole(model: type[BaseModel]) -> Any:
    """An object of the API's with every field filled."""
    schema = model.model_json_schema(mode="serialization")
    return example(schema, schema.get("$defs", {}))


def shown(*pages: Any) -> str:
    """What a wide terminal shows."""
    with CONSOLE.capture() as captured:
        for one in pages:
            CONSOLE.print(one)
    return captured.get()


@pytest.mark.parametrize("name", SHOWN)
def test_every_path_is_one_that_the_servers_schema_has(name: str) -> None:
    resource, model = SHOWN[name]
    answer = Answer(whole(model))
    told = shown(table(resource, [answer], CONSOLE), page(resource, answer, CONSOLE))
    assert all(column.title in told for column in resource.table())


def test_rollouts_curves_and_events_are_read_by_the_servers_schemas_too() -> None:
    rollout, curves, event = (Answer(whole(model)) for model in (RolloutDetail, CurvesObject, EventObject))
    assert "reward 0.500" in shown(rollout_page(rollout))
    assert "0.500 -> 0.500" in shown(curves_page(curves, 100))
    assert "text" in shown(event_lines([event]))
    watched = Watched()
    for message, model in (("job", JobObject), ("step", StepObject), ("event", EventObject)):
        watched.apply(Sent(message, json.dumps(whole(model)), None))
    assert [point.train for point in watched.points] == [0.5]
    assert len(watched.events) == 1


def test_a_rehearsals_report_is_read_by_its_schema_too() -> None:
    with CONSOLE.capture() as captured:
        show_report(Answer(whole(RehearsalReport)), CONSOLE)
    told = captured.get()
    assert "3 rollouts in 0.5 s, 3 excluded, 3 not finished" in told
    assert "A training step spends about 0.5 s" in told
    assert all(title in told for title in ("What to do", "What will limit a job", "What this rests on"))
    assert told.count("  - text") == 3


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
PAGES: list[tuple[type[BaseModel], Callable[[Answer], Any]]] = [
    *(
        (model, lambda it, one=resource: (table(one, [it], CONSOLE), page(one, it, CONSOLE)))
        for resource, model in SHOWN.values()
    ),
    (RolloutDetail, lambda it: (rollout_page(it),)),
    (CurvesObject, lambda it: (curves_page(it, 100),)),
    (EventObject, lambda it: (event_lines([it]),)),
]


def nested(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a document: what holds it, and its key there."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [place for key in keys for place in [(value, key), *nested(value[key])]]


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(PAGES), st.data())
def test_a_value_of_any_kind_anywhere_is_shown_or_not_understood(
    shown_as: tuple[type[BaseModel], Callable[[Answer], Any]], data: st.DataObject
) -> None:
    model, pages = shown_as
    document = json.loads(json.dumps(whole(model)))
    holder, key = data.draw(st.sampled_from(nested(document)))
    holder[key] = data.draw(json_values)
    with suppress(NotUnderstood):
        assert shown(*pages(Answer(document))).strip()


@given(st.sampled_from(["job", "step", "event", "other"]), st.text() | json_values.map(json.dumps))
def test_a_streams_message_of_any_kind_is_taken_or_not_understood(event: str, text: str) -> None:
    watched = Watched()
    try:
        watched.apply(Sent(event, text, None))
    except NotUnderstood:
        assert watched.job is None
    watched.status_line(0.0)


def test_a_criterion_is_told_with_what_is_known_of_it() -> None:
    def compared(rows: int, difference: float | None) -> list[str]:
        criterion: Any = {"testing_criteria": "exact", "score": None, "rows": rows, "score_difference": difference}
        told = dict(eval_resources.COMPARISON.facts(Answer({**whole(ComparisonObject), "criteria": [criterion]})))
        return [str(value) for title, value in told.items() if title.strip() == "exact"]

    assert compared(0, None) == []
    assert compared(1, 0.5) == ["0.500 over 1 row, no interval"]
    assert compared(3, -0.5) == ["-0.500 over 3 rows, no interval"]


def test_a_criterion_of_a_run_without_any_score_is_left_out() -> None:
    def told(mean: float | None) -> list[str]:
        criterion: Any = {"testing_criteria": "exact", "score": None, "score_mean": mean}
        run = Answer({**whole(EvalRunObject), "figures": {**whole(EvalRunObject)["figures"], "criteria": [criterion]}})
        return [str(value) for title, value in eval_resources.EVAL_RUN.facts(run) if title.strip() == "exact"]

    assert told(None) == []
    assert told(0.5) == ["0.500, no interval"]
