"""What is said of a job's pace."""

import re
from pathlib import Path

import pytest

from rft.core.endpoint_load import EndpointLoad, LimitReason, NamedLoad
from rft.core.events import StepDone
from rft.core.failure import Stage
from rft.core.pacing import Bound, EndpointCalls
from rft.platform.rollouts.ledger_repository import CalledRow
from rft.platform.rollouts.pace import LEARNED_AFTER_25_STEPS, calls_of, pace_of, window_of
from tests.shared.train_events import step_done

OLDER_POLICIES = (
    " Older policies teach less per step, though: after 25 steps the demo's reward is 0.92, 0.90, 0.84, 0.69"
    " with max_staleness 0, 1, 2, 4."
)
TOOL = "http://127.0.0.1:9/tools"


def step(*, update_s: float, rollouts_s: float, staleness: int = 0) -> StepDone:
    record = step_done(3, 9, evaluated=False)
    assert record.train is not None
    assert record.optimization is not None
    timing = record.timing.model_copy(
        update={
            "sampling_s": 0.0 if staleness else rollouts_s / 10,
            "tools_s": 0.0 if staleness else rollouts_s * 0.8,
            "grading_s": 0.0 if staleness else rollouts_s / 10,
            "training_s": update_s,
            "eval_s": 0.0,
        }
    )
    return record.model_copy(
        update={
            "timing": timing,
            "train": record.train.model_copy(update={"rollout_latency_p95_s": rollouts_s}),
            "optimization": record.optimization.model_copy(update={"staleness_max": staleness}),
        }
    )


@pytest.mark.parametrize(
    ("record", "max_staleness", "bound", "message"),
    [
        (
            step(update_s=5.0, rollouts_s=30.0), 0, Bound.ROLLOUTS,
            "A step takes 35.0 s: 30.0 s of rollouts, then 5.0 s of update and evaluation."
            " With max_staleness 4 one would take about 8.0 s." + OLDER_POLICIES,
        ),
        (
            step(update_s=5.0, rollouts_s=30.0, staleness=1), 1, Bound.ROLLOUTS,
            "Steps wait for their rollouts, 30.0 s from the first to the slowest."
            " With max_staleness 6 one would take about 5.0 s." + OLDER_POLICIES,
        ),
        (
            step(update_s=30.0, rollouts_s=5.0, staleness=1), 1, Bound.UPDATE,
            "Steps wait for nothing but what is computed: 30.0 s of update and evaluation, and samples."
            " Faster tools would change nothing; more processors or a GPU would.",
        ),
        (
            step(update_s=30.0, rollouts_s=5.0, staleness=4), 4, Bound.UPDATE,
            "Steps wait for nothing but what is computed: 30.0 s of update and evaluation, and samples."
            " max_staleness 1 would be about as fast, and newer policies teach more per step.",
        ),
    ],
)  # fmt: skip
def test_what_sets_the_pace_is_said_with_what_would_change_it(
    record: StepDone, max_staleness: int, bound: Bound, message: str
) -> None:
    told = pace_of([record], max_staleness)
    assert told is not None
    assert (told.bound, told.message) == (bound, message)


def test_nothing_is_said_before_the_first_update() -> None:
    assert pace_of([step_done(0, 5)], 0) is None


def search(**changes: object) -> EndpointCalls:
    told = {"endpoint": "tool `search`", "calls": 400.0, "latency_s": 2.0, "limit": 40, "why": "the cap"} | changes
    return EndpointCalls(**told)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("record", "max_staleness", "calls", "message"),
    [
        (
            step(update_s=5.0, rollouts_s=20.0, staleness=1), 1, search(),
            "Your tool `search` bears 40 calls at once (the cap): a step's 400 calls take 20.0 s."
            " A second GPU would change nothing: only more calls at once, or faster ones, would.",
        ),
        (
            step(update_s=5.0, rollouts_s=20.0), 0, search(),
            "Your tool `search` bears 40 calls at once (the cap): a step's 400 calls take 20.0 s."
            f" With max_staleness 1 one would take about 20.0 s.{OLDER_POLICIES} A second GPU would change nothing.",
        ),
        (
            step(update_s=5.0, rollouts_s=20.0, staleness=4), 4, search(),
            "Your tool `search` bears 40 calls at once (the cap): a step's 400 calls take 20.0 s."
            " A second GPU would change nothing: only more calls at once, or faster ones, would."
            " max_staleness 1 would be about as fast, and newer policies teach more per step.",
        ),
        (
            step(update_s=5.0, rollouts_s=8.0, staleness=1), 1,
            search(endpoint="tools `cat` and `ls`", limit=None, rate_limit=8.0),
            "Your tools `cat` and `ls` bear 8 calls a second (rate_limit): a step's 400 calls take 50.0 s."
            " A second GPU would change nothing: only more calls at once, or faster ones, would.",
        ),
    ],
)  # fmt: skip
def test_an_endpoint_that_bears_no_more_is_named(
    record: StepDone, max_staleness: int, calls: EndpointCalls, message: str
) -> None:
    told = pace_of([record], max_staleness, [calls])
    assert told is not None
    assert (told.bound, told.message) == (Bound.ENDPOINT, message)


def test_waiting_in_an_endpoint_s_queue_is_no_reason_for_older_policies() -> None:
    """Four calls of each rollout waited 30 s for their turn: rollouts alone are short, however long they were told."""
    crowded = step(update_s=5.0, rollouts_s=130.0, staleness=4)
    assert crowded.train is not None
    calls = 4.0 * crowded.train.rollouts
    told = pace_of([crowded], 4, [search(calls=calls, latency_s=0.5 * 40 * 56 / calls, queued_s=30.0)])
    assert told is not None
    assert (told.bound, told.advised_staleness, told.advised_step_s) == (Bound.ENDPOINT, 1, pytest.approx(28.0))


def load(name: str, reason: LimitReason) -> NamedLoad:
    told = EndpointLoad(limit=40, reason=reason, changed_at=1.0, in_flight=40, queued=9, calls_per_s=20.0)
    return NamedLoad(stage=Stage.TOOL, endpoint=name, is_shared=False, load=told)


def called(name: str, attempts: int, latency_s: float) -> CalledRow:
    return CalledRow(stage=Stage.TOOL, endpoint=name, attempts=attempts, latency_s=latency_s, queued_s=latency_s / 2)


SETTLED = {LimitReason.SET, LimitReason.ORDERED, LimitReason.SLOWER, LimitReason.REFUSED}


@pytest.mark.parametrize("reason", list(LimitReason))
def test_tools_behind_one_address_share_what_it_bears_once_that_is_settled(reason: LimitReason) -> None:
    records = [step_done(number, 9, evaluated=number == 2) for number in (1, 2)]
    window = window_of(records)
    assert window is not None
    assert window == range(1, 3)
    addresses = {(Stage.TOOL, "search"): TOOL, (Stage.TOOL, "cat"): TOOL + "?of=cat", (Stage.TOOL, "ls"): TOOL + "/ls"}
    made = [called("cat", 100, 1.0), called("ls", 10, 9.0), called("search", 300, 2.0)]
    shared, alone = calls_of(made, records, window, [load("search", reason)], addresses)
    assert records[0].train is not None
    assert records[1].valid is not None
    trained = 2 * records[0].train.rollouts
    share = trained / (trained + records[1].valid.rollouts)
    assert (shared.endpoint, alone.endpoint) == ("tools `cat` and `search`", "tool `ls`")
    assert (shared.calls, shared.latency_s) == pytest.approx((400 * share / 2, 1.75))
    assert shared.queued_s == pytest.approx(0.875)
    assert shared.limit == (40 if reason in SETTLED else None)
    assert (alone.limit, alone.seconds) == (None, 0.0)


def test_the_window_holds_no_more_than_the_last_steps() -> None:
    assert window_of([step_done(number, 999) for number in (0, 100, 200, 300)]) == range(291, 301)
    assert window_of([step_done(0, 9)]) is None


def test_what_older_policies_teach_is_what_the_table_says() -> None:
    table = (Path(__file__).parents[4] / "docs" / "training.md").read_text()
    rows = re.findall(r"^  \| (\d) \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|$", table, re.MULTILINE)
    assert {int(staleness): float(reward) for staleness, reward in rows} == LEARNED_AFTER_25_STEPS
