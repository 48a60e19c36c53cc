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
    criteria = exported.get("testing_criteria")
    kept = [
        _criterion(cast("JsonObject", criterion))
        for index, criterion in enumerate(criteria if isinstance(criteria, list) else [])
        if index not in without and isinstance(criterion, dict)
    ]
    metadata, remarks = _marked(exported, {FROM: str(exported.get("id"))})
    config = exported.get("data_source_config")
    body: JsonObject = {
        "name": exported.get("name") or str(exported.get("id")),
        "data_source_config": _config(config if isinstance(config, dict) else {}),
        "testing_criteria": cast("JsonValue", kept),
        "metadata": metadata,
    }
    return Order(body, remarks)


def _criterion(answered: JsonObject) -> JsonObject:
    """Without its id, which names something here that is registered under it; by the name that it was given."""
    asked = {name: value for name, value in said(answered).items() if name != "id"}
    name = asked.get("name")
    return {**asked, "name": shown_name(name)} if isinstance(name, str) else asked


def _config(answered: JsonObject) -> JsonObject:
    """As it was asked for."""
    if answered.get("type") != "custom":
        return {name: value for name, value in said(answered).items() if name in ("type", "metadata")}
    schema = answered.get("schema")
    parts = schema.get("properties") if isinstance(schema, dict) else None
    parts = parts if isinstance(parts, dict) else {}
    item = parts.get("item")
    config: JsonObject = {"type": "custom", "include_sample_schema": "sample" in parts}
    return {**config, "item_schema": item if isinstance(item, dict) else {"type": "object"}}


def said(document: JsonObject) -> JsonObject:
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
    raw = exported.get("data_source")
    data_source = raw if isinstance(raw, dict) else {}
    source = data_source.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    if data_source.get("type") == "jsonl" and (kind == "file_content" or has_file):
        order = _run_order(exported, {"type": "jsonl", "source": source}, as_=RECORDED)
        return RunPlan(order, file_id=_file_id(source))
    if data_source.get("type") == "jsonl" or model is None:
        return RunPlan(_run_order(exported, {"type": "jsonl"}, as_=RECORDED), has_recorded_items=True)
    sampled = said(data_source) | {"model": model}
    if kind == "file_content" or (kind == "file_id" and has_file):
        return RunPlan(_run_order(exported, sampled, as_=model), file_id=_file_id(source))
    reads_stored = kind in _STORED and "input_messages" not in sampled
    if reads_stored:
        sampled |= {"input_messages": {"type": "item_reference", "item_reference": f"item.{INPUT}"}}
    order = _run_order(exported, sampled, as_=model)
    return RunPlan(order, has_recorded_items=True, reads_stored=reads_stored)


def source_file(exported: JsonObject) -> str | None:
    """The file that a run reads."""
    data_source = exported.get("data_source")
    return _file_id(data_source.get("source")) if isinstance(data_source, dict) else None


def _file_id(source: JsonValue) -> str | None:
    file_id = source.get("id") if isinstance(source, dict) and source.get("type") == "file_id" else None
    return file_id if isinstance(file_id, str) else None


def _run_order(exported: JsonObject, data_source: JsonObject, *, as_: str) -> Order:
    metadata, remarks = _marked(exported, {FROM: str(exported.get("id")), AS: as_[:_LONGEST_VALUE]})
    name = exported.get("name") or str(exported.get("id"))
    return Order({"name": name, "data_source": data_source, "metadata": metadata}, remarks)


def _marked(exported: JsonObject, marks: Mapping[str, str]) -> tuple[JsonObject, tuple[str, ...]]:
    given = exported.get("metadata")
    pairs = {name: value for name, value in (given if isinstance(given, dict) else {}).items() if name not in marks}
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
    item, sample = output_item.get("datasource_item"), output_item.get("sample")
    if not isinstance(item, dict):
        return RecordedItem(None, "no item was recorded")
    sample = sample if isinstance(sample, dict) else {}
    if with_input:
        messages = sample.get("input")
        if not isinstance(messages, list) or not messages:
            return RecordedItem(None, "no input was recorded")
        item = {**item, INPUT: messages}
    if not with_sample:
        return RecordedItem({"item": item})
    output, error = _last_said(sample), _error_of(sample)
    if output is None or error is not None:
        return RecordedItem(None, "no sample was recorded" if error is None else f"its sampling failed: {error}")
    return RecordedItem({"item": item, "sample": _sample(sample, output)})


def _last_said(sample: JsonObject) -> JsonObject | None:
    output = sample.get("output")
    messages = [one for one in output if isinstance(one, dict)] if isinstance(output, list) else []
    answers = [one for one in messages if one.get("role", "assistant") in ("assistant", None)]
    return answers[-1] if answers else None


def _sample(sample: JsonObject, message: JsonObject) -> JsonObject:
    """What graders' templates call `sample`."""
    content = message.get("content")
    text = content if isinstance(content, str) else ""
    calls = message.get("tool_calls")
    built: JsonObject = {"output_text": text, "output_tools": calls if isinstance(calls, list) else []}
    if isinstance(model := sample.get("model"), str):
        built["model"] = model
    document = _json_of(text)
    return built if document is None else {**built, "output_json": document}


def _json_of(text: str) -> JsonValue:
    try:
        document = cast("JsonValue", json.loads(text))
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict | list) else None


def _error_of(sample: JsonObject) -> str | None:
    """What went wrong there; the texts of an error are empty where all went well."""
    error = sample.get("error")
    told = (error.get("message") or error.get("code")) if isinstance(error, dict) else None
    return told if isinstance(told, str) and told else None
