"""What a run is doing now reads as one line."""

import pytest

from rft.core.progress import Activity, BaselineProgress, RoundProgress, RunProgress
from rft.core.rollout import Split

BUSY = RoundProgress(
    step=3,
    split=Split.TRAIN,
    rollouts=1280,
    ended=1057,
    sampling=12,
    waiting_for_engine=3,
    calling={"cat": 1, "search": 9},
    queued={"search": 4},
    grading=2,
    ungraded=1,
)


def message(now: RoundProgress | None, activity: Activity = Activity.ROLLING_OUT) -> str:
    return RunProgress(activity=activity, since=0, round=now).message


def test_everything_that_goes_on_is_counted() -> None:
    assert message(BUSY) == (
        "step 3: 1,057 of 1,280 rollouts ended, 3 waiting for the engine, 12 sampling, 9 in `search` (4 queued),"
        " 1 in `cat`, 2 grading, 1 waiting for a grade"
    )


@pytest.mark.parametrize(
    ("split", "begins"),
    [
        (Split.TRAIN, "step 3: "),
        (Split.VALID, "validation of step 3: "),
        (Split.TEST, "final figures, policy of step 3: "),
    ],
)
def test_each_kind_of_round_is_named(split: Split, begins: str) -> None:
    quiet = RoundProgress(step=3, split=split, rollouts=8, ended=8)
    assert message(quiet) == f"{begins}8 of 8 rollouts ended"


def test_no_more_calls_are_said_to_be_queued_than_there_are() -> None:
    """Two tools behind one endpoint share its queue."""
    shared = RoundProgress(
        step=1, split=Split.TRAIN, rollouts=4, ended=0, calling={"a": 1, "b": 2}, queued={"a": 3, "b": 3}
    )
    assert message(shared) == "step 1: 0 of 4 rollouts ended, 2 in `b` (2 queued), 1 in `a` (1 queued)"


def test_later_steps_under_way_are_told() -> None:
    now = RoundProgress(step=3, split=Split.TRAIN, rollouts=8, ended=8, later_rollouts=1200, later_ended=17)
    assert message(now) == "step 3: 8 of 8 rollouts ended, 17 of 1,200 of later steps ended"


def test_every_activity_has_words_of_its_own() -> None:
    said = {activity: message(None, activity) for activity in Activity}
    assert len(set(said.values())) == len(Activity)
    assert all(said.values())


def test_a_baseline_is_named_and_counted_once_its_rows_are_read() -> None:
    def told(now: BaselineProgress) -> str:
        return RunProgress(activity=Activity.MEASURING_BASELINE, since=0, baseline=now).message

    assert told(BaselineProgress(model="acme/small")) == "measuring the baseline acme/small"
    assert told(BaselineProgress(model="acme/small", rollouts=2000, ended=7)) == (
        "measuring the baseline acme/small: 7 of 2,000 rollouts ended"
    )
