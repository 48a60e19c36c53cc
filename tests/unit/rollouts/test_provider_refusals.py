"""What a provider refuses or breaks: what becomes of the rollout, of the run, and of the key."""

from typing import Any, cast

import pytest

from rft.core.base import JsonObject
from rft.core.egress_settings import EgressSettings
from rft.core.failure import Failure, FailureCode, Fault, Stage
from rft.rollouts.chat_policy import UNUSABLE_MODEL, ChatFinish, ChatTurn
from rft.rollouts.provider_policy import ProviderEndpoint, ProviderPolicy, open_provider_client
from rft.testing.faults import Fault as EndpointFault
from rft.testing.faults import FaultKind, FaultSequence, HttpAnswer
from rft.testing.provider import Said, provider_error
from tests.unit.rollouts.providers import KEY, asked, policy_of, said_to

CONTEXT_REFUSALS = [
    provider_error(400, "too long", code="context_length_exceeded"),
    provider_error(400, "This model's maximum context length is 8192 tokens."),
    provider_error(413, "Request too large: the prompt is too long"),
]


@pytest.mark.parametrize("refusal", CONTEXT_REFUSALS)
async def test_a_full_context_is_a_stop_reason_once_nothing_else_can_be_meant(refusal: HttpAnswer) -> None:
    async with policy_of(lambda body: refusal) as (policy, provider):
        said = await policy.complete(asked(max_tokens=4096))
    assert isinstance(said, ChatTurn)
    assert said.finish_reason is ChatFinish.CONTEXT_FULL
    assert ["max_completion_tokens" in body for body in provider.requests] == [True, False]


async def test_room_for_tokens_that_the_context_lacks_does_not_end_the_conversation() -> None:
    """vLLM for one counts `max_tokens` to the conversation's length: a short row would be graded 0 for our budget."""

    def small_context(body: JsonObject) -> Said:
        return CONTEXT_REFUSALS[1] if "max_completion_tokens" in body else "Four."

    async with policy_of(small_context) as (policy, _):
        said = await policy.complete(asked(max_tokens=100_000))
    assert isinstance(said, ChatTurn)
    assert said.content == "Four."


CODES = {
    401: FailureCode.UNAUTHORIZED,
    403: FailureCode.UNAUTHORIZED,
    407: FailureCode.UNAUTHORIZED,
    408: FailureCode.SERVER_ERROR,
    421: FailureCode.SERVER_ERROR,
    425: FailureCode.SERVER_ERROR,
    429: FailureCode.RATE_LIMITED,
}


def code_of(status: int) -> FailureCode:
    if status < 400:
        return FailureCode.UNEXPECTED_STATUS
    return CODES.get(status, FailureCode.SERVER_ERROR if status >= 500 else FailureCode.REJECTED)


async def test_no_status_is_ever_a_turn() -> None:
    statuses = [300, 302, *range(400, 600)]
    status = 0
    async with policy_of(lambda body: HttpAnswer(status, b"no"), retries=0) as (policy, _):
        outcomes: dict[int, object] = {}
        for status in statuses:
            outcomes[status] = await policy.complete(asked(trace_id=f"trace_{status}"))
    for asked_status, said in outcomes.items():
        assert isinstance(said, Failure), asked_status
        assert (said.stage, said.code, said.status) == (Stage.SAMPLER, code_of(asked_status), asked_status)


@pytest.mark.parametrize("kind", [kind for kind in FaultKind if "score" not in kind and kind is not FaultKind.STATUS])
async def test_no_broken_answer_is_ever_a_turn(kind: FaultKind) -> None:
    faults = FaultSequence([EndpointFault(kind)], last_stays=True)
    async with policy_of(["never"], faults=faults, retries=0, timeout_s=0.3) as (policy, _):
        said = await policy.complete(asked())
    assert isinstance(said, Failure)
    assert (said.stage, said.fault, said.endpoint) == (Stage.SAMPLER, Fault.ENDPOINT, "acme")


async def test_a_wrong_key_is_told_once_and_ends_the_run_and_no_message_has_the_key() -> None:
    wrong = "sk-wrong-9876543210fedcba"
    said = await said_to(["never"], api_key=wrong)
    assert isinstance(said, Failure)
    assert (said.code, said.status, said.detail, said.attempts) == (FailureCode.UNAUTHORIZED, 401, UNUSABLE_MODEL, 1)
    assert said.message.startswith("Provider 'acme' at http://127.0.0.1")
    assert "Incorrect API key provided" in said.message
    assert wrong not in repr(said)


async def test_a_model_wrong_by_a_letter_ends_the_run() -> None:
    said = await said_to(["never"], model="smal")
    assert isinstance(said, Failure)
    assert (said.code, said.detail) == (FailureCode.REJECTED, UNUSABLE_MODEL)
    assert "The model `smal` does not exist" in said.message


async def test_one_refused_row_ends_no_run_and_three_do() -> None:
    refusal = provider_error(400, "messages[1]: images are not supported")
    async with policy_of(lambda body: refusal) as (policy, _):
        details = [await policy.complete(asked(trace_id=f"trace_{row}")) for row in (1, 1, 2, 3)]
    assert [cast("Failure", said).detail for said in details] == [None, None, None, UNUSABLE_MODEL]


async def test_refusals_after_an_answer_are_the_rows_own() -> None:
    answers: list[Said] = ["Four.", *[provider_error(status, "no") for status in (400, 403, 404, 422)]]
    async with policy_of(lambda body: answers.pop(0)) as (policy, _):
        assert isinstance(await policy.complete(asked()), ChatTurn)
        said = [await policy.complete(asked(trace_id=f"trace_{row}")) for row in range(4)]
    assert [cast("Failure", one).detail for one in said] == [None] * 4


@pytest.mark.parametrize("status", [401, 402])
async def test_a_key_that_was_taken_back_ends_the_run_at_any_time(status: int) -> None:
    answers: list[Said] = ["Four.", provider_error(status, "no")]
    async with policy_of(lambda body: answers.pop(0)) as (policy, _):
        await policy.complete(asked())
        said = await policy.complete(asked())
    assert cast("Failure", said).detail == UNUSABLE_MODEL


@pytest.mark.lengthy
async def test_a_busy_provider_is_asked_again_when_it_says() -> None:
    waits: list[float] = []

    async def note(wait_s: float) -> None:
        waits.append(wait_s)

    faults = FaultSequence([EndpointFault(FaultKind.STATUS, status=429, retry_after="7")])
    async with policy_of(["Four."], faults=faults) as (policy, _):
        client = cast("Any", policy)._client
        client.sleep = note
        said = await policy.complete(asked())
    assert isinstance(said, ChatTurn)
    assert said.attempts == 2
    assert waits
    assert waits[0] >= 7.0


async def test_an_address_that_may_not_be_called_is_not_called() -> None:
    async with open_provider_client(EgressSettings(allow_loopback=False)) as client:
        endpoint = ProviderEndpoint(name="acme", base_url="http://127.0.0.1:9/v1", api_key=KEY)
        said = await ProviderPolicy(client, endpoint, "small").complete(asked())
    assert isinstance(said, Failure)
    assert (said.code, said.detail) == (FailureCode.BLOCKED_ADDRESS, UNUSABLE_MODEL)


def test_no_key_stands_in_what_is_printed() -> None:
    endpoint = ProviderEndpoint(
        name="acme", base_url="https://a/v1?key=hush-hush-hush", api_key=KEY, headers={"X": "secret-header"}
    )
    shown = repr(endpoint)
    assert not [secret for secret in (KEY, "hush-hush-hush", "secret-header") if secret in shown]
