"""The pace of steps: never better than its slowest part, never worse for more staleness."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.events import StepDone
from rft.core.pacing import (
    MAX_STALENESS,
    WORTH_IT,
    Bound,
    Calibration,
    EndpointCalls,
    Pace,
    StepWork,
    advised_staleness,
    pace,
    work_of,
)
from tests.shared.train_events import step_done

seconds = st.floats(0.01, 1e4)
works = st.builds(
    StepWork,
    update_s=seconds,
    sampling_s=seconds,
    rollouts_s=seconds,
    is_shared=st.booleans(),
    stalled_s=st.sampled_from([0.0, 0.01]),
    endpoints_s=st.dictionaries(st.sampled_from(["search", "cat"]), seconds),
)


@given(works, st.integers(0, MAX_STALENESS - 1))
def test_more_staleness_never_slows_down_and_nothing_is_faster_than_its_slowest_part(
    work: StepWork, staleness: int
) -> None:
    one, more = pace(work, staleness), pace(work, staleness + 1)
    assert more.step_s <= one.step_s * (1 + 1e-9)
    assert one.step_s >= max(work.update_s, work.sampling_s, *work.endpoints_s.values())
    # So many rollouts are under way at most: 1 + staleness steps of them in the time that one takes with its update.
    assert one.step_s * (1 + staleness) >= (work.rollouts_s + work.update_s) * (1 - 1e-9)
    beside_s = work.rollouts_s + work.stalled_s + work.update_s
    assert more.step_s * (2 + staleness) >= beside_s * (1 - 1e-9)


@given(works)
def test_what_is_named_as_the_bound_is_it(work: StepWork) -> None:
    for staleness in range(MAX_STALENESS + 1):
        found = pace(work, staleness)
        assert (found.endpoint is not None) == (found.bound is Bound.ENDPOINT)
        if found.endpoint is not None:
            assert work.endpoints_s[found.endpoint] == max(work.endpoints_s.values())


@given(works)
def test_the_advice_is_the_least_that_is_about_as_fast_as_the_most(work: StepWork) -> None:
    advised, best_s = advised_staleness(work), pace(work, MAX_STALENESS).step_s
    assert pace(work, advised).step_s * WORTH_IT <= best_s
    assert advised == 0 or pace(work, advised - 1).step_s * WORTH_IT > best_s


def test_examples() -> None:
    slow_tools = StepWork(update_s=5.0, sampling_s=2.0, rollouts_s=35.0)
    assert pace(slow_tools, 0) == Pace(40.0, Bound.ROLLOUTS)
    assert pace(slow_tools, 1) == Pace(20.0, Bound.ROLLOUTS)
    assert pace(slow_tools, 8) == Pace(7.0, Bound.COMPUTE)
    assert advised_staleness(slow_tools) == 5
    heavy_update = StepWork(update_s=50.0, sampling_s=5.0, rollouts_s=10.0, is_shared=False)
    assert [pace(heavy_update, n) for n in (0, 1)] == [Pace(60.0, Bound.UPDATE), Pace(50.0, Bound.UPDATE)]
    crowded = StepWork(update_s=5.0, sampling_s=2.0, rollouts_s=30.0, endpoints_s={"search": 25.0, "cat": 3.0})
    assert pace(crowded, 4) == Pace(25.0, Bound.ENDPOINT, "search")


def hidden(record: StepDone) -> StepDone:
    assert record.optimization is not None
    return record.model_copy(update={"optimization": record.optimization.model_copy(update={"staleness_max": 2})})


def test_the_work_of_steps_is_read_from_their_records() -> None:
    records = [step_done(step, 30) for step in range(20)]
    found = work_of(records)
    assert found is not None
    assert (found.update_s, found.sampling_s, found.rollouts_s) == pytest.approx((2.25, 1.0, 1.75))
    assert 0 < records[-1].timing.training_s == pytest.approx(found.stalled_s), "what is to begin beside updates waits"
    apart = work_of(records, is_shared=False)
    assert apart == replace(found, is_shared=False, stalled_s=0.0), "updates on other processors stall no rollout"
    train = records[-1].train
    assert train is not None
    beside = work_of([hidden(record) for record in records[1:]])
    assert beside is not None
    assert (beside.update_s, beside.sampling_s, beside.stalled_s) == pytest.approx((2.25, 0.0, 0.0))
    assert beside.rollouts_s == pytest.approx(train.rollout_latency_p95_s)
    assert work_of(records[:1]) is None, "the baseline trains nothing"


@given(seconds, seconds, st.integers(1, 512), st.integers(1, 512))
def test_an_endpoint_that_bears_more_takes_less_for_a_step(
    calls: float, latency_s: float, limit: int, more: int
) -> None:
    one, other = (EndpointCalls("search", calls, latency_s, limit=limit + extra) for extra in (0, more))
    assert other.seconds < one.seconds
    assert one.seconds * limit == pytest.approx(calls * latency_s)
    assert EndpointCalls("search", calls, latency_s).seconds == 0.0, "nothing limits it"


def test_what_waited_for_an_endpoint_is_no_part_of_a_rollout_s_length() -> None:
    record = step_done(3, 9)
    assert record.train is not None
    calls = 2.0 * record.train.rollouts
    found = work_of(
        [record], [EndpointCalls("search", calls, 1.0, queued_s=0.25, limit=2), EndpointCalls("cat", 3.0, 1.0)]
    )
    assert found is not None
    assert found.rollouts_s == pytest.approx(1.75 - 2 * 0.25)
    assert found.endpoints_s == {"search": pytest.approx(calls / 2)}


calibrations = st.builds(Calibration, update_s=seconds, sampling_s=seconds, calls=seconds, calls_of_slowest=seconds)


@given(calibrations, st.integers(1, 256), seconds, st.integers(1, 512), st.integers(0, MAX_STALENESS))
def test_slower_tools_fewer_calls_at_once_and_more_rollouts_never_make_steps_faster(
    known: Calibration, rollouts: int, latency_s: float, limit: int, staleness: int
) -> None:
    now_s = pace(known.work(rollouts, latency_s, limit), staleness).step_s
    assert pace(known.work(rollouts, 2 * latency_s, limit), staleness).step_s >= now_s
    assert pace(known.work(rollouts + 1, latency_s, limit), staleness).step_s >= now_s
    assert pace(known.work(rollouts, latency_s, 2 * limit), staleness).step_s <= now_s
    assert pace(known.work(rollouts, latency_s), staleness).step_s <= now_s


def test_a_calibration_tells_of_another_job() -> None:
    known = Calibration(update_s=0.0625, sampling_s=0.0078125, calls=4.0, calls_of_slowest=10.0)
    assert known.work(32, 1.0) == StepWork(update_s=2.0, sampling_s=0.25, rollouts_s=10.25, stalled_s=2.0)
    assert pace(known.work(32, 1.0), 0) == Pace(12.25, Bound.ROLLOUTS)
    assert pace(known.work(32, 1.0), 1) == Pace((10.25 + 2 * 2.0) / 2, Bound.ROLLOUTS)
    apart = replace(known, is_shared=False)
    assert pace(apart.work(32, 1.0), 1) == Pace((10.25 + 2.0) / 2, Bound.ROLLOUTS)
    assert pace(known.work(32, 1.0, limit=8), 0) == Pace(18.0, Bound.ENDPOINT, "tool")
