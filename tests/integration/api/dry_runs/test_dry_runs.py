"""Graders without a job, as the official SDK asks for them."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.judge import Completion, ScriptedJudge
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.running_api import Api, ReceivedMessages, Served

EXACT = {
    "type": "string_check",
    "name": "exact",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.answer }}",
    "operation": "eq",
}


CODE = {
    "type": "python",
    "name": "code",
    "source": "def grade(sample, item):\n    return len(sample['output_text']) / 10\n",
}


RAISING = {**CODE, "source": "def grade(sample, item):\n    raise ValueError\n"}


SCORE = {
    "type": "score_model",
    "name": "score",
    "model": "judge-1",
    "input": [{"role": "user", "content": "{{ sample.output_text }} against {{ item.answer }}"}],
}


ERROR_FIELDS = {
    "formula_parse_error", "sample_parse_error", "sample_parse_error_details", "truncated_observation_error",
    "unresponsive_reward_error", "invalid_variable_error", "invalid_variable_error_details", "other_error",
    "python_grader_server_error", "python_grader_server_error_type", "python_grader_runtime_error",
    "python_grader_runtime_error_details", "model_grader_server_error", "model_grader_server_error_details",
    "model_grader_refusal_error", "model_grader_refusal_error_details", "model_grader_parse_error",
    "model_grader_parse_error_details", "model_grader_exceeded_max_tokens_error", "endpoint_grader_internal_error",
    "endpoint_grader_internal_error_details", "endpoint_grader_server_error", "endpoint_grader_server_error_details",
    "endpoint_grader_safety_check_error",
}  # fmt: skip


async def run(client: AsyncOpenAI, grader: Any, answer: str = "7", **more: Any) -> Any:
    return await client.fine_tuning.alpha.graders.run(grader=grader, model_sample=answer, item={"answer": "7"}, **more)


async def test_calls_of_2025_name_a_reference_answer_which_graders_read_of_the_item(client: AsyncOpenAI) -> None:
    grader: Any = {**EXACT, "reference": "{{ item.reference_answer }}"}
    ran = client.fine_tuning.alpha.graders.run
    earlier = await ran(grader=grader, model_sample="7", extra_body={"reference_answer": "7"})
    both = await ran(
        grader=grader, model_sample="7", item={"reference_answer": "8"}, extra_body={"reference_answer": "7"}
    )
    assert (earlier.reward, both.reward) == (1.0, 0.0)


async def test_every_kind_of_grader_runs_and_tells_everything(client: AsyncOpenAI, customer: LoopbackEndpoint) -> None:
    remote = {"type": "endpoint", "url": customer.grader_url, "name": "same"}
    multi = {
        "type": "multi",
        "graders": {"exact": EXACT, "code": CODE, "score": SCORE, "remote": remote, "again": remote},
        "calculate_output": "exact + code + score + remote * 2 * again",
    }

    reply = await run(client, multi)

    assert reply.reward == pytest.approx(1 + 0.1 + 0.75 + 0.5)
    assert reply.sub_rewards == {"exact": 1.0, "code": 0.1, "score": 0.75, "remote": 0.5, "again": 0.5}
    assert reply.api_model_grader_token_usage_per_model == {
        "judge-1": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "cached_tokens": 10}
    }
    metadata = reply.metadata
    assert metadata.name.startswith("grader-"), "invented"
    assert (metadata.type, metadata.token_usage, metadata.sampled_model_name) == ("multi", 120, "judge-1")
    assert metadata.execution_time > 0
    wire = json.loads(reply.to_json(use_api_names=True))
    assert set(wire["metadata"]["errors"]) == ERROR_FIELDS
    assert not any(wire["metadata"]["errors"].values())
    assert wire["failure"] is None
    keys = {call.headers["idempotency-key"].partition("/")[2] for call in customer.endpoint.calls}
    assert keys == {"grade.remote", "grade.again"}, "two parts are two calls"


async def test_names_of_512_characters_are_told_in_full(client: AsyncOpenAI, customer: LoopbackEndpoint) -> None:
    named = {"name": "n" * 512}
    remote = {"type": "endpoint", "url": customer.grader_url, **named}
    multi = {"type": "multi", "graders": {"exact": {**EXACT, **named}}, "calculate_output": "exact", **named}
    for grader, reward in (({**EXACT, **named}, 1.0), (remote, 0.5), ({**SCORE, **named}, 0.75), (multi, 1.0)):
        reply = await run(client, grader)
        assert (reply.metadata.name, reply.reward) == (named["name"], reward)
    with pytest.raises(BadRequestError, match="1 to 512 characters") as raised:
        await run(client, {**EXACT, "name": "n" * 513})
    assert raised.value.param == "grader.name"


async def test_several_answers_of_one_trace_id_are_several_calls_and_one_answer_again_is_the_same(
    client: AsyncOpenAI, customer: LoopbackEndpoint
) -> None:
    grader = {"type": "endpoint", "url": customer.grader_url}

    for answer in ("7", "8", "7"):
        await run(client, grader, answer, extra_body={"trace_id": "trace_mine"})
    await run(client, grader, "7", extra_body={"trace_id": "trace_mine", "item": {"answer": "8"}})

    first, second, again, other_item = [call.headers["idempotency-key"] for call in customer.endpoint.calls]
    assert first == again
    assert len({first, second, other_item}) == 3
    assert all(key.startswith("trace_mine/grade") for key in (first, second, other_item))


async def test_an_edited_prompt_or_format_is_another_call_of_the_same_trace_id(
    client: AsyncOpenAI, judge: ScriptedJudge
) -> None:
    edited = {**SCORE, "input": [{"role": "user", "content": "{{ sample.output_text }}, strictly"}]}
    mine: dict[str, Any] = {"trace_id": "trace_mine"}
    for grader in (SCORE, edited, SCORE):
        await run(client, grader, extra_body=mine)
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}}
    await run(client, SCORE, extra_body={**mine, "response_format": schema})

    first, other, again, formatted = [call.headers["idempotency-key"] for call in judge.calls]
    assert first == again
    assert len({first, other, formatted}) == 3


async def test_the_endpoint_is_told_the_trace_id_and_the_answer_as_json(
    client: AsyncOpenAI, customer: LoopbackEndpoint
) -> None:
    grader = {"type": "endpoint", "url": customer.grader_url, "headers": {"X-Key": "secret-value"}}

    reply = await run(client, grader, '{"total": 7}', extra_body={"trace_id": "trace_mine"})

    (call,) = customer.endpoint.calls
    body = json.loads(call.body)
    assert (body["trace_id"], body["item"], body["sample"]["output_json"]) == (
        "trace_mine",
        {"answer": "7"},
        {"total": 7},
    )
    assert call.headers["x-key"] == "secret-value"
    assert "webhook-signature" in call.headers, "signed as in a job"
    assert "secret-value" not in reply.to_json()
    assert (reply.reward, reply.sub_rewards) == (0.5, {})


async def test_a_ruler_ranks_a_group_of_one(client: AsyncOpenAI, judge: ScriptedJudge) -> None:
    judge.says('{"scores": [{"trajectory_id": "1", "explanation": "alone", "score": 0.9}]}')

    reply = await run(client, {"type": "ruler", "model": "judge-1"})

    assert (reply.reward, reply.metadata.type) == (0.9, "ruler")


@pytest.mark.parametrize(
    ("grader", "flags"),
    [
        ({**EXACT, "reference": "{{ item.nothing }}"}, {"invalid_variable_error"}),
        ({**CODE, "source": "def grade(sample, item):\n    return 1 / 0\n"}, {"python_grader_runtime_error"}),
        (
            {"type": "multi", "graders": {"exact": EXACT}, "calculate_output": "1 / (exact - 1)"},
            {"formula_parse_error"},
        ),
        (
            {"type": "multi", "name": "code", "graders": {"code": CODE}, "calculate_output": "log(code - code)"},
            {"formula_parse_error"},
        ),
        (
            {"type": "multi", "name": "exact",
             "graders": {"code": RAISING, "exact": EXACT},
             "calculate_output": "code + exact"},
            {"python_grader_runtime_error"},
        ),
        (
            {"type": "multi", "graders": {"part": {**CODE, "source": "def grade(sample, item):\n    return 'x'\n"}},
             "calculate_output": "part"},
            {"python_grader_runtime_error"},
        ),
        ({"type": "endpoint", "url": "http://10.1.2.3/grade"}, {"endpoint_grader_safety_check_error"}),
    ],
    ids=["variable", "exception", "formula", "namesake", "part", "namesake-part", "address"],
)  # fmt: skip
async def test_a_grader_without_a_score_says_why_under_the_contracts_name(
    client: AsyncOpenAI, grader: dict[str, Any], flags: set[str]
) -> None:
    reply = await run(client, grader)

    wire = json.loads(reply.to_json(use_api_names=True))
    errors = wire["metadata"]["errors"]
    assert {name for name, value in errors.items() if value is True} == flags
    is_graded = flags <= {"python_grader_runtime_error", "formula_parse_error"}
    assert (wire["failure"] is None, wire["error_details"] is None) == (is_graded, not is_graded)
    message = wire["error_details"] if is_graded else wire["failure"]["message"]
    assert "grader '" in message
    for name in flags:
        details = f"{name}_details"
        assert details not in errors or errors[details] == message


@pytest.mark.parametrize(
    ("said", "flag"),
    [
        (Completion("I like it."), "model_grader_parse_error"),
        (Completion(None, refusal="No."), "model_grader_refusal_error"),
        (Completion("{", finish_reason="length"), "model_grader_exceeded_max_tokens_error"),
        (None, "model_grader_server_error"),
    ],
    ids=["unreadable", "refusal", "cut-off", "down"],
)
async def test_what_went_wrong_with_the_judge_is_named(
    client: AsyncOpenAI, judge: ScriptedJudge, said: Completion | None, flag: str
) -> None:
    if said is None:
        judge.faults = FaultSequence([Fault(FaultKind.STATUS, status=500)], last_stays=True)
    else:
        judge.says(said)

    reply = await run(client, SCORE)

    errors = json.loads(reply.to_json(use_api_names=True))["metadata"]["errors"]
    assert {name for name, value in errors.items() if value is True} == {flag}
    assert "sk-judge-secret" not in reply.to_json()
    tokens = None if said is None else 2 * (said.prompt_tokens + said.completion_tokens)
    assert reply.metadata.token_usage == tokens, "both answers were paid for"


async def test_what_the_parts_came_to_is_told_when_another_part_fails(client: AsyncOpenAI) -> None:
    multi = {"type": "multi", "graders": {"code": RAISING, "score": SCORE}, "calculate_output": "code + score"}

    reply = await run(client, multi)

    assert (reply.sub_rewards, reply.metadata.scores) == ({"code": 0.0, "score": 0.75}, {"code": 0.0, "score": 0.75})
    assert reply.metadata.token_usage == 120
    assert reply.metadata.errors.python_grader_runtime_error is True


async def test_every_part_that_fails_tells_why_under_its_own_name(
    client: AsyncOpenAI, judge: ScriptedJudge, customer: LoopbackEndpoint
) -> None:
    judge.says(Completion(None, refusal="No."))
    customer.endpoint.faults = FaultSequence([Fault(FaultKind.STATUS, status=503)], last_stays=True)
    parts = {
        "fine": EXACT,
        "lacking": {**EXACT, "input": "{{ sample.output_json.total }}"},
        "code": RAISING,
        "more": {**CODE, "source": "def grade(sample, item):\n    return 'x'\n"},
        "unknown": {**EXACT, "reference": "{{ item.nothing }}"},
        "score": SCORE,
        "remote": {"type": "endpoint", "url": customer.grader_url},
        "blocked": {"type": "endpoint", "url": "http://10.1.2.3/grade"},
    }

    reply = await run(client, {"type": "multi", "graders": parts, "calculate_output": "+".join(parts)})

    wire = json.loads(reply.to_json(use_api_names=True))
    flags = {
        name: {flag for flag, value in errors.items() if value is True}
        for name, errors in wire["metadata"]["part_errors"].items()
    }
    assert flags == {
        "fine": set(),
        "lacking": {"sample_parse_error"},
        "code": {"python_grader_runtime_error"},
        "more": {"python_grader_runtime_error"},
        "unknown": {"invalid_variable_error"},
        "score": {"model_grader_refusal_error"},
        "remote": {"endpoint_grader_server_error"},
        "blocked": {"endpoint_grader_safety_check_error"},
    }
    assert all(set(errors) == ERROR_FIELDS for errors in wire["metadata"]["part_errors"].values())
    together = wire["metadata"]["errors"]
    assert {flag for flag, value in together.items() if value is True} == set().union(*flags.values())
    details = [
        wire["metadata"]["part_errors"][name]["python_grader_runtime_error_details"] for name in ("code", "more")
    ]
    assert together["python_grader_runtime_error_details"] == "\n".join(details)
    assert ["'code'" in details[0], "'more'" in details[1]] == [True, True]
    judged = {"fine": 1.0, "lacking": 0.0, "code": 0.0, "more": 0.0}
    assert reply.sub_rewards == {**judged, **dict.fromkeys([*parts][4:])}
    assert (reply.reward, wire["failure"]) == (0.0, None), "what raised decides, whoever failed beside it"


async def test_an_answer_that_lacks_a_variable_is_a_grade_of_zero_with_a_flag(client: AsyncOpenAI) -> None:
    reply = await run(client, {**EXACT, "input": "{{ sample.output_json.total }}"}, "no JSON")

    assert reply.reward == 0.0
    assert reply.metadata.errors.sample_parse_error is True
    assert reply.model_extra is not None
    assert reply.model_extra["failure"] is None


async def test_an_endpoint_that_is_down_is_named(client: AsyncOpenAI, customer: LoopbackEndpoint) -> None:
    customer.endpoint.faults = FaultSequence([Fault(FaultKind.STATUS, status=503)], last_stays=True)

    reply = await run(client, {"type": "endpoint", "url": customer.grader_url})

    errors = json.loads(reply.to_json(use_api_names=True))["metadata"]["errors"]
    assert {name for name, value in errors.items() if value is True} == {"endpoint_grader_server_error"}
    assert "503" in errors["endpoint_grader_server_error_details"]


async def test_validate_names_the_grader_masks_it_and_refuses_what_cannot_run(client: AsyncOpenAI) -> None:
    remote: Any = {
        "type": "endpoint",
        "url": "http://127.0.0.1:9/g",
        "headers": {"X-Key": "secret-value"},
        "note": "kept",
    }
    validated = await client.fine_tuning.alpha.graders.validate(grader=remote)
    shown = json.loads(validated.to_json(warnings=False))["grader"]
    assert shown["name"].startswith("grader-")
    assert (shown["headers"], shown["note"]) == ({"X-Key": "**********"}, "kept")

    bad: Any = {
        "type": "multi",
        "graders": {"exact": {**EXACT, "reference": "{{ row.x }}"}},
        "calculate_output": "exact",
    }
    with pytest.raises(BadRequestError) as refused:
        await client.fine_tuning.alpha.graders.validate(grader=bad)
    assert (refused.value.param, refused.value.code) == ("grader.graders.exact.reference", "invalid_value")


async def test_a_judge_that_is_not_configured_is_said(migrated_url: str, tmp_path: Path, api: Api) -> None:
    settings = api.settings.model_copy(update={"judge_base_url": None, "home": tmp_path / "other"})
    with Served(settings, ReceivedMessages()) as port:
        async with AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=api.key, max_retries=0) as client:
            with pytest.raises(BadRequestError, match="RFT_JUDGE_BASE_URL") as refused:
                await run(client, SCORE)
    assert (refused.value.param, refused.value.code) == ("grader.type", "judge_not_configured")


async def test_a_graders_own_number_of_the_endpoint_may_be_anything_finite(client: AsyncOpenAI) -> None:
    async with LoopbackEndpoint(ScriptedEndpoint(grader=ScriptedGrader(-17.5))) as customer:
        reply = await run(client, {"type": "endpoint", "url": customer.grader_url})

    assert reply.reward == -17.5


async def test_a_registered_grader_is_run_and_checked_by_its_id(
    client: AsyncOpenAI, customer: LoopbackEndpoint
) -> None:
    remote = {"type": "endpoint", "name": "remote", "url": customer.grader_url, "headers": {"X-Key": "grader-secret"}}
    made: Any = await client.post("/graders", body={"grader": remote}, cast_to=object)
    by_id: Any = {"id": made["id"]}
    graded = await run(client, by_id)
    assert (graded.metadata.name, graded.to_dict()["failure"]) == ("remote", None)
    assert customer.endpoint.calls[-1].headers["x-key"] == "grader-secret"
    checked = await client.fine_tuning.alpha.graders.validate(grader=by_id)
    assert checked.to_dict(warnings=False)["grader"] == {**made["grader"], **by_id}
    for grader, param in (({"id": "grader_none"}, "grader.id"), (made["grader"], "grader.headers")):
        with pytest.raises(BadRequestError) as raised:
            await run(client, grader)
        assert raised.value.param == param
