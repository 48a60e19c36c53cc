"""Evals are defined, listed, changed and deleted through the official SDK."""

from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.integration.evals.stage import CUSTOM, EXACT, ITEM_SCHEMA, Stage
from tests.shared.running_api import changed, collect

SIMILAR: Any = {
    "type": "text_similarity",
    "name": "alike",
    "input": "{{sample.output_text}}",
    "reference": "{{ item.answer }}",
    "evaluation_metric": "fuzzy_match",
    "pass_threshold": 0.8,
}
CODE: Any = {"type": "python", "name": "code", "source": "def grade(sample, item):\n    return 1.0\n"}


async def test_an_eval_comes_back_as_the_sdk_types_it(stage: Stage) -> None:
    made = await stage.client.evals.create(
        name="Arithmetic", metadata={"team": "a"}, data_source_config=CUSTOM, testing_criteria=[EXACT, SIMILAR, CODE]
    )
    found = await stage.client.evals.retrieve(made.id)
    assert found.to_dict() == made.to_dict()
    assert made.id.startswith("eval_")
    assert (made.object, made.name, made.metadata) == ("eval", "Arithmetic", {"team": "a"})
    assert made.data_source_config.type == "custom"
    shown: Any = made.data_source_config.schema_
    assert shown["properties"]["item"] == ITEM_SCHEMA
    assert shown["required"] == ["item", "sample"]
    assert [type(criterion).__name__ for criterion in made.testing_criteria] == [
        "StringCheckGrader",
        "TestingCriterionEvalGraderTextSimilarity",
        "TestingCriterionEvalGraderPython",
    ]
    written: Any = made.to_dict()["testing_criteria"]
    assert [criterion["id"].rpartition("exact-")[0] for criterion in written[:1]] == [""]
    assert written[1] | {"id": ""} == SIMILAR | {"id": ""}


@pytest.mark.parametrize("kind", ["logs", "stored_completions"])
async def test_logs_are_taken_as_a_source_and_echoed(stage: Stage, kind: str) -> None:
    config: Any = {"type": kind, "metadata": {"usecase": "chat"}}
    made = await stage.client.evals.create(data_source_config=config, testing_criteria=[EXACT])
    assert made.name == made.id
    assert made.data_source_config.type == kind
    assert getattr(made.data_source_config, "metadata", None) == {"usecase": "chat"}
    assert made.data_source_config.schema_["required"] == ["item", "sample"]


async def test_whoever_deletes_page_by_page_what_was_changed_last_deletes_all(stage: Stage) -> None:
    evals = stage.client.evals
    made = [await stage.make() for _ in range(3)]
    await evals.update(made[0], name="changed last")
    deleted = []
    async for found in evals.list(limit=1, order="desc", order_by="updated_at"):
        await evals.delete(found.id)
        deleted.append(found.id)
    assert deleted == [made[0], made[2], made[1]]


async def test_pages_follow_one_another_in_both_orders_also_past_a_deleted_eval(stage: Stage) -> None:
    made = [await stage.make() for _ in range(5)]
    evals = stage.client.evals
    assert [found.id for found in await collect(evals.list(limit=2, order="asc"))] == made
    assert [found.id for found in await collect(evals.list(limit=2, order="desc"))] == made[::-1]
    await evals.update(made[1], name="changed")
    by_change = await collect(evals.list(limit=3, order="desc", order_by="updated_at"))
    assert [found.id for found in by_change] == [made[1], *made[:1:-1], made[0]]
    page = await evals.list(limit=2, order="asc")
    await evals.delete(made[1])
    assert page.has_next_page()
    assert [found.id for found in (await page.get_next_page()).data] == made[2:4]


async def test_a_name_and_metadata_change_alone_or_together(stage: Stage) -> None:
    evals = stage.client.evals
    made = await stage.make()
    assert (await evals.update(made, metadata={"a": "b"})).name == made
    renamed = await evals.update(made, name="New")
    assert (renamed.name, renamed.metadata) == ("New", {"a": "b"})
    assert (await evals.update(made, metadata=None)).metadata is None


async def test_what_is_deleted_is_gone(stage: Stage) -> None:
    made = await stage.make()
    gone = await stage.client.evals.delete(made)
    assert (gone.deleted, gone.eval_id) == (True, made)
    for ask in (stage.client.evals.retrieve, stage.client.evals.delete, stage.client.evals.update):
        with pytest.raises(openai.NotFoundError) as refused:
            await ask(made)
        assert (refused.value.param, refused.value.code) == ("eval_id", "eval_not_found")


async def test_header_values_are_kept_and_never_shown(stage: Stage) -> None:
    remote: Any = {
        "type": "endpoint",
        "name": "remote",
        "url": "http://127.0.0.1:9/grade?key=hush",
        "headers": {"X-Key": "hush-hush"},
    }
    made = await stage.client.evals.create(data_source_config=CUSTOM, testing_criteria=[remote])
    assert "hush" not in repr(made)
    async with stage.context.database.connection() as connection:
        cursor = await connection.execute("select testing_criteria::text, sealed from evals")
        [(shown, sealed)] = await cursor.fetchall()
    assert "hush" not in shown
    assert "hush-hush" in stage.context.secret_box.unseal_text(sealed)


async def test_a_criterion_read_from_another_eval_is_taken_as_it_is(stage: Stage) -> None:
    first: Any = (await stage.client.evals.retrieve(await stage.make(SIMILAR))).to_dict()
    again: Any = await stage.client.evals.create(data_source_config=CUSTOM, testing_criteria=first["testing_criteria"])
    [before], [after] = first["testing_criteria"], again.to_dict()["testing_criteria"]
    assert after["id"] != before["id"]
    assert after | {"id": ""} == before | {"id": ""}


async def test_fields_that_mean_nothing_here_are_kept(stage: Stage) -> None:
    owned: Any = {**EXACT, "owner": "me"}
    made: Any = await stage.client.evals.create(data_source_config=CUSTOM, testing_criteria=[owned])
    assert made.to_dict()["testing_criteria"][0]["owner"] == "me"


async def test_a_registered_grader_is_a_criterion_by_its_id(stage: Stage) -> None:
    registered: Any = await stage.client.post("/graders", body={"grader": EXACT}, cast_to=object)
    by_id: Any = {"id": registered["id"]}
    made: Any = await stage.client.evals.create(data_source_config=CUSTOM, testing_criteria=[by_id])
    assert made.to_dict()["testing_criteria"][0]["reference"] == "{{item.answer}}"


ONE = "testing_criteria[0]"
REFUSED: list[tuple[dict[str, Any], str | None, str]] = [
    ({"testing_criteria": [changed(EXACT, {"reference": "{{item.anwser}}"})]}, f"{ONE}.reference", "'answer'"),
    ({"testing_criteria": [changed(EXACT, {"input": "{{sample.text}}"})]}, f"{ONE}.input", "output_text"),
    ({"testing_criteria": [changed(SIMILAR, {"pass_threshold": None})]}, f"{ONE}.pass_threshold", "required"),
    ({"testing_criteria": [changed(SIMILAR, {"evaluation_metric": "cosine"})]}, f"{ONE}.evaluation_metric", "embed"),
    ({"testing_criteria": [{"type": "ruler", "model": "m"}]}, f"{ONE}.type", "relative"),
    ({"testing_criteria": [changed(CODE, {"source": "def grade("})]}, f"{ONE}.source", ""),
    ({"testing_criteria": [{"id": "grader_unknown"}]}, f"{ONE}.id", "no registered grader"),
    ({"testing_criteria": [{**CODE, "pass_treshold": 0.9}]}, f"{ONE}.pass_treshold", "'pass_threshold'"),
    ({"testing_criteria": [{**CODE, "threshold": 0.9}]}, f"{ONE}.threshold", "'pass_threshold'"),
    ({"testing_criteria": []}, "testing_criteria", "at least 1"),
    ({"data_source_config": {"type": "custom"}}, "data_source_config.item_schema", "required"),
    ({"data_source_config": {"type": "files"}}, "data_source_config.type", "custom"),
    (
        {"data_source_config": {"type": "custom", "item_schema": {"type": "objekt"}}},
        "data_source_config.item_schema",
        "JSON Schema",
    ),
    ({"data_source_config": {"type": "custom", "item_schema": {"type": "array"}}}, None, "an item is one"),
    (
        {"testing_criteria": [{"type": "score_model", "model": "m", "input": [{"role": "user", "content": "x"}]}]},
        f"{ONE}.type",
        "RFT_JUDGE_BASE_URL",
    ),
]


async def test_what_cannot_be_graded_is_refused_by_name_and_nothing_is_made(stage: Stage) -> None:
    for change, param, word in REFUSED:
        order: Any = {"data_source_config": CUSTOM, "testing_criteria": [EXACT]} | change
        with pytest.raises(openai.BadRequestError) as refused:
            await stage.client.evals.create(**order)
        assert param is None or refused.value.param == param, refused.value.message
        assert word in refused.value.message
    assert not (await stage.client.evals.list()).data


def test_the_synchronous_client_does_the_same(stage: Stage) -> None:
    with OpenAI(base_url=stage.url, api_key=stage.key, max_retries=0) as client:
        made = [client.evals.create(data_source_config=CUSTOM, testing_criteria=[EXACT]).id for _ in range(3)]
        assert [found.id for found in client.evals.list(limit=1)] == made
        with pytest.raises(openai.BadRequestError) as refused:
            client.evals.list(after="eval_unknown")
        assert (refused.value.param, refused.value.code) == ("after", "invalid_cursor")
        with pytest.raises(openai.NotFoundError):
            client.evals.retrieve("eval_unknown")
