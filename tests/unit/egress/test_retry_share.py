"""The law of retries: a share of the attempts, ten, one per ten seconds, and those let off."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rft.egress.retry_share import RetryShare

_steps = st.tuples(
    st.sampled_from(["first ends", "retry wants in", "endpoint answers"]),
    st.sampled_from([0.0, 0.0, 0.01, 1.0, 20.0]),
    st.integers(1, 50),
)


@given(
    steps=st.lists(_steps, max_size=300),
    share=st.sampled_from([0.0, 0.2, 0.3, 0.5]),
    per_s=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_whatever_happens_retries_keep_the_law(steps: list[tuple[str, float, int]], share: float, per_s: float) -> None:
    retries = RetryShare(share=share, per_s=per_s)
    now_s, attempts, started, let_off = 0.0, 0, 0, 0
    let_off_at: list[float] = []
    for event, wait_s, many in steps:
        now_s += wait_s
        if event == "first ends":
            attempts += 1
            retries.on_end()
        elif event == "endpoint answers":
            if retries.on_answer(waiting=many, now_s=now_s):
                let_off += many
                let_off_at.append(now_s)
        else:
            while many and retries.covers(now_s):
                retries.on_start()
                retries.on_end()
                started, attempts, many = started + 1, attempts + 1, many - 1
        assert started <= retries.first + share * attempts + per_s * now_s + let_off + 1e-6
    gaps = [later - earlier for earlier, later in pairwise(let_off_at)]
    assert all(gap >= retries.let_off_every_s for gap in gaps)


def test_retries_that_succeed_are_charged_like_those_that_fail() -> None:
    retries, started = RetryShare(per_s=0.0), 0
    retries.on_answer(waiting=0, now_s=0.0)
    for _ in range(1000):
        retries.on_end()  # a first attempt, failed
        if retries.covers(0.0):
            retries.on_start()
            retries.on_end()
            started += 1
    assert started <= 10 + 0.3 * (1000 + started)


def test_a_dead_endpoint_without_traffic_gets_a_share_and_one_retry_per_ten_seconds() -> None:
    retries, started, now_s = RetryShare(), 0, 0.0
    for _ in range(1000):
        now_s += 5.0
        retries.on_end()
        while retries.covers(now_s):
            retries.on_start()
            retries.on_end()
            started += 1
    assert started <= 10 + 0.3 * (1000 + started) + 0.1 * now_s


def test_a_lone_rollout_may_retry_at_once_and_later_again() -> None:
    retries = RetryShare()
    for _ in range(10):
        assert retries.covers(0.0)
        retries.on_start()
    assert not retries.covers(9.0)
    assert retries.covers(10.1)


def test_all_that_wait_are_let_off_when_the_endpoint_answers_but_not_again_soon() -> None:
    retries = RetryShare(per_s=0.0, first=0.0)
    assert not retries.covers(0.0)
    assert retries.on_answer(waiting=400, now_s=0.0)
    for _ in range(400):
        assert retries.covers(0.0)
        retries.on_start()
    assert not retries.covers(0.0)
    assert not retries.on_answer(waiting=400, now_s=29.9)
    assert not retries.covers(29.9)
    assert retries.on_answer(waiting=1, now_s=30.0)
    assert retries.covers(30.0)
