"""What is kept of calls that went wrong: the newest few of each endpoint, without secrets."""

from hypothesis import given
from hypothesis import strategies as st

from rft.core.attempt import Attempt
from rft.core.failed_call import SHOWN_CHARS, FailedCall
from rft.core.failure import FailureCode, Stage
from rft.egress.failed_calls import AT_ONCE, EVERY_S, FailedCalls, shown_text
from rft.egress.reply import AttemptFailure, Reply

TIMEOUT = AttemptFailure(FailureCode.TIMEOUT, "gave no whole reply within 5 s")


def attempt(
    number: int, *, endpoint: str = "search", code: FailureCode | None = None, status: int | None = 200
) -> Attempt:
    return Attempt(
        at=float(number), trace_id=f"trace_{number}", stage=Stage.TOOL, endpoint=endpoint, call_id="call_1", attempt=1,
        code=code, status=status, latency_s=0.1, queued_s=0.0, sent_bytes=3, received_bytes=3,
    )  # fmt: skip


def reply(status: int, body: bytes = b"no") -> Reply:
    return Reply(status, {}, body, 0.1)


def refused(calls: FailedCalls, number: int, *, endpoint: str = "search") -> None:
    made = attempt(number, endpoint=endpoint, status=404)
    calls.note(made, reply(404), None, request=b"{}", secrets=())


def numbers(taken: list[FailedCall]) -> list[int]:
    return [int(one.at) for one in taken]


def test_what_failed_and_what_was_refused_is_kept_and_nothing_else() -> None:
    calls = FailedCalls()
    calls.note(attempt(1), reply(200), None, request=b"{}", secrets=())
    calls.note(attempt(2, status=422), reply(422, b'{"detail": "q"}'), None, request=b'{"q": 1}', secrets=())
    calls.note(attempt(3, code=FailureCode.TIMEOUT, status=None), TIMEOUT, TIMEOUT, request=b'{"q": 2}', secrets=())
    given_up = AttemptFailure(FailureCode.CANCELLED, "was not waited for any longer")
    calls.note(attempt(4, code=FailureCode.CANCELLED, status=None), given_up, given_up, request=b"{}", secrets=())
    told = calls.take(0.0)
    assert [(one.status, one.code, one.message, one.request, one.reply) for one in told] == [
        (422, None, None, '{"q": 1}', '{"detail": "q"}'),
        (None, FailureCode.TIMEOUT, TIMEOUT.message, '{"q": 2}', None),
    ]
    assert calls.take(EVERY_S) == []


def test_the_newest_few_are_told_at_once_and_then_from_time_to_time() -> None:
    calls = FailedCalls()
    for number in range(100):
        refused(calls, number)
    refused(calls, 100, endpoint="lookup")
    assert numbers(calls.take(5.0)) == [*range(100 - AT_ONCE, 100), 100]
    for number in range(200, 300):
        refused(calls, number)
    assert calls.take(5.0 + EVERY_S - 1) == []
    assert numbers(calls.take(5.0 + EVERY_S)) == [*range(300 - AT_ONCE, 300)]
    refused(calls, 400)
    assert numbers(calls.take(5.0 + EVERY_S, is_last=True)) == [400], "nothing is left behind at the end"


def test_a_services_word_waits_like_our_own() -> None:
    told = FailedCall(1.0, "trace_1", Stage.GRADER, "judge", "call_1", 1, None, 404, None, "{}", "no")
    calls = FailedCalls()
    calls.add(told)
    assert calls.take(0.0) == [told]


@given(
    before=st.text(st.sampled_from("ab"), max_size=3 * SHOWN_CHARS),
    secrets=st.lists(st.sampled_from(["sesame-open", "hunter-2000", "x" * 40]), min_size=1, max_size=3, unique=True),
    times=st.integers(1, 8000),
)
def test_no_secret_is_shown_wherever_the_text_is_cut(before: str, secrets: list[str], times: int) -> None:
    text = before + "".join(secrets) * times
    shown = shown_text(text.encode(), secrets)
    assert len(shown) <= SHOWN_CHARS
    rest = shown.replace("***", "").lstrip("ab")
    assert rest.strip("*") == "", "not even a part of one"
