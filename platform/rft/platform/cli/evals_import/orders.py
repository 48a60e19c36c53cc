"""What of an exported eval and its runs is asked for here. Pure: documents in, orders and remarks out.

The service answers in other words than it is asked: a schema for items and samples together instead of `item_schema`,
names of graders with an id behind them, null for what was never said. Types of `openai.types.evals`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.text_parts import text_of_parts
from rft.platform.cli.answers import Answer

FROM, AS = "imported_from", "imported_as"
"""Keys of `metadata`: what an imported eval or run was there, and how a run was taken over."""
RECORDED = "recorded"
"""A run whose samples are those of the hosted run, graded here."""
INPUT = "recorded_input"
"""The key of an item for the messages of a stored completion, where the run names no input of its own."""
_LARGEST_METADATA = 16
_LONGEST_VALUE = 512
_NAME_SUFFIX = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_STORED = ("stored_completions", "responses", "logs")


@dataclass(frozen=True, slots=True)
class Order:
    """The body of a request, and what is said of it to the person."""

    body: JsonObject
    remarks: tuple[str, ...] = ()


def eval_order(exported: JsonObject, *, without: Sequence[int] = ()) -> Order:
    """An eval as it is created here, but for the testing criteria at some places."""
    told = Answer(exported)
    criteria = enumerate(told.find("testing_criteria", list) or [])
    kept = [_criterion(one) for index, one in criteria if index not in without and isinstance(one, dict)]
    metadata, remarks = _marked(exported, {FROM: str(exported.get("id"))})
    body: JsonObject = {
        "name": exported.get("name") or str(exported.get("id")),
        "data_source_config": _config(Answer(told.find("data_source_config", dict) or {})),
        "testing_criteria": cast("JsonValue", kept),
        "metadata": metadata,
    }
    return Order(body, remarks)


def _criterion(answered: JsonObject) -> JsonObject:
    """Without its id, which names something here that is registered under it; by the name that it was given."""
    asked = {name: value for name, value in _said(answered).items() if name != "id"}
    name = asked.get("name")
    return {**asked, "name": shown_name(name)} if isinstance(name, str) else asked


def carried_places(exported: JsonObject, here: JsonObject) -> list[int]:
    """Of each testing criterion of the eval here: the place that it has in the export, which may have more of them."""
    there, carried = _criteria(exported), _criteria(here)
    if len(there) == len(carried):
        return list(range(len(there)))
    places: list[int] = []
    for criterion in carried:
        rest = range(places[-1] + 1 if places else 0, len(there))
        alike = [place for place in rest if there[place].get("name") == criterion.get("name")]
        same = [place for place in alike if there[place] == criterion]
        places += (same or alike)[:1]
    return places


def result_places(exported: JsonObject, names: Sequence[str]) -> list[int | None]:
    """The places of the testing criteria that these results of a run are of: by name and id, else in their order."""
    told = [[one.get("name", str), one.get("id", str)] for one in Answer(exported).parts("testing_criteria")]
    shown = [shown_name(name or "") for name, _ in told]
    places: list[int | None] = []
    for name in names:
        free = [place for place in range(len(told)) if place not in places]
        exact = [place for place in free if name in told[place]]
        alike = [place for place in free if shown[place] == shown_name(name)]
        places.append(next(iter(exact or alike), None))
    return places


def _criteria(evaluation: JsonObject) -> list[JsonObject]:
    return [_criterion(one.raw) for one in Answer(evaluation).parts("testing_criteria")]


def _config(answered: Answer) -> JsonObject:
    """As it was asked for."""
    if answered.raw.get("type") != "custom":
        return {name: value for name, value in _said(answered.raw).items() if name in ("type", "metadata")}
    parts = answered.find("schema.properties", dict) or {}
    item = Answer(parts).find("item", dict)
    schema: JsonObject = {"type": "object"} if item is None else item
    return {"type": "custom", "include_sample_schema": "sample" in parts, "item_schema": schema}


def _said(document: JsonObject) -> JsonObject:
    """Without the fields that are null: what was never said."""
    return {name: value for name, value in document.items() if value is not None}


def criterion_at(param: object) -> int | None:
    """The place of the testing criterion that a refusal names."""
    found = re.match(r"testing_criteria(?:\.|\[)(\d+)", param) if isinstance(param, str) else None
    return int(found[1]) if found else None


def shown_name(name: str) -> str:
    """A grader's name without the id that the service puts behind it."""
    return _NAME_SUFFIX.sub("", name)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """How a run is taken over."""

    order: Order
    file_id: str | None = None
    """The exported file whose new id belongs into the source; None: none."""
    has_recorded_items: bool = False
    """Its items are those that the hosted run wrote down, as a new file."""
    reads_stored: bool = field(default=False, kw_only=True)
    """The items came from stored completions or responses; their inputs are taken from what was recorded."""

    def body(self, file_id: str | None) -> JsonObject:
        """With the id that its file got here."""
        body = self.order.body
        if file_id is None:
            return body
        source: JsonObject = {"type": "file_id", "id": file_id}
        return {**body, "data_source": {**cast("JsonObject", body["data_source"]), "source": source}}


def run_plan(exported: JsonObject, *, model: str | None, has_file: bool) -> RunPlan:
    """A run graded again on its recorded samples, or sampled anew by a model of this platform.

    model: who samples; None keeps what was recorded. has_file: the export holds the file that the source names.
    """
    data_source = Answer(exported).find("data_source", dict) or {}
    source, kind = data_source.get("source"), Answer(data_source).find("source.type", str)
    is_whole = kind == "file_content" or has_file
    if data_source.get("type") == "jsonl" and is_whole:
        order = _run_order(exported, {"type": "jsonl", "source": source}, as_=RECORDED)
        return RunPlan(order, file_id=source_file(exported))
    if data_source.get("type") == "jsonl" or model is None:
        return RunPlan(_run_order(exported, {"type": "jsonl"}, as_=RECORDED), has_recorded_items=True)
    sampled = _said(data_source) | {"model": model}
    if is_whole:
        return RunPlan(_run_order(exported, sampled, as_=model), file_id=source_file(exported))
    reads_stored = kind in _STORED and "input_messages" not in sampled
    if reads_stored:
        sampled |= {"input_messages": {"type": "item_reference", "item_reference": f"item.{INPUT}"}}
    order = _run_order(exported, sampled, as_=model)
    return RunPlan(order, has_recorded_items=True, reads_stored=reads_stored)


def source_file(exported: JsonObject) -> str | None:
    """The file that a run reads."""
    source = Answer(Answer(exported).find("data_source.source", dict) or {})
    return source.find("id", str) if source.find("type", str) == "file_id" else None


def _run_order(exported: JsonObject, data_source: JsonObject, *, as_: str) -> Order:
    metadata, remarks = _marked(exported, {FROM: str(exported.get("id")), AS: as_[:_LONGEST_VALUE]})
    name = exported.get("name") or str(exported.get("id"))
    return Order({"name": name, "data_source": data_source, "metadata": metadata}, remarks)


def _marked(exported: JsonObject, marks: Mapping[str, str]) -> tuple[JsonObject, tuple[str, ...]]:
    given = Answer(exported).find("metadata", dict) or {}
    pairs = {name: value for name, value in given.items() if name not in marks}
    kept = dict(list(pairs.items())[: _LARGEST_METADATA - len(marks)])
    left = [name for name in pairs if name not in kept]
    remarks = (f"no room for metadata {', '.join(map(repr, left))}",) if left else ()
    return {**kept, **marks}, remarks


@dataclass(frozen=True, slots=True)
class RecordedItem:
    """One line of a run's new file, or why there is none."""

    line: JsonObject | None
    why_not: str | None = None


def recorded_item(output_item: JsonObject, *, with_sample: bool, with_input: bool = False) -> RecordedItem:
    """An output item as the line of a `jsonl` source.

    with_sample: it keeps what was sampled. with_input: the item gets the messages that the model was shown.
    """
    told = Answer(output_item)
    item, sample = told.find("datasource_item", dict), Answer(told.find("sample", dict) or {})
    if item is None:
        return RecordedItem(None, "no item was recorded")
    if with_input:
        messages = sample.find("input", list)
        if not messages:
            return RecordedItem(None, "no input was recorded")
        item = {**item, INPUT: messages}
    if not with_sample:
        return RecordedItem({"item": item})
    # The texts of an error are empty where all went well.
    error = sample.find("error.message", str) or sample.find("error.code", str)
    if error:
        return RecordedItem(None, f"its sampling failed: {error}")
    answers = [one for one in sample.find("output", list) or [] if isinstance(one, dict) and _is_answer(one)]
    if not answers:
        return RecordedItem(None, "no sample was recorded")
    content = answers[-1].get("content")
    text = "" if content is None else text_of_parts(content)
    if text is None:
        return RecordedItem(None, "its answer is no text")
    return RecordedItem({"item": item, "sample": _sample(sample, text, Answer(answers[-1]))})


def _is_answer(message: JsonObject) -> bool:
    return message.get("role") in ("assistant", None)


def _sample(sample: Answer, text: str, message: Answer) -> JsonObject:
    """What graders' templates call `sample`."""
    built: JsonObject = {"output_text": text, "output_tools": message.find("tool_calls", list) or []}
    told = {name: sample.find(name, str) for name in ("model", "finish_reason")}
    built |= {name: value for name, value in told.items() if value is not None}
    asked = sample.find("input", list)
    built |= {"input": asked} if asked else {}
    document = _json_of(text)
    return built if document is None else {**built, "output_json": document}


def _json_of(text: str) -> JsonValue:
    try:
        document = cast("JsonValue", json.loads(text))
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict | list) else None
