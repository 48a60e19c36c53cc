"""What a run is doing right now: told beside its events, replaced by what it does next, kept nowhere. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum

from pydantic import Field

from rft.core.base import Record
from rft.core.endpoint_load import NamedLoad
from rft.core.rollout import Split


class Activity(StrEnum):
    """What the process of a run is busy with."""

    BUILDING_STARTER = "building_starter"
    """The demo's own policy is taught once for a machine."""
    MEASURING_BASELINE = "measuring_baseline"
    """Another model is asked, before the training."""
    LOADING = "loading"
    """Model, engine and connections."""
    ROLLING_OUT = "rolling_out"
    TRAINING = "training"
    """The update, and its checkpoint."""


class StageCounts(Record):
    """Conversations under way, by what they wait for."""

    sampling: int = 0
    waiting_for_engine: int = 0
    calling: Mapping[str, int] = Field(default_factory=dict[str, int])
    """Calls that have no answer yet, by tool."""
    grading: int = 0

    def __add__(self, other: "StageCounts") -> "StageCounts":
        return StageCounts(
            sampling=self.sampling + other.sampling,
            waiting_for_engine=self.waiting_for_engine + other.waiting_for_engine,
            calling=Counter(self.calling) + Counter(other.calling),
            grading=self.grading + other.grading,
        )


class RoundProgress(Record):
    """Where the rollouts of a round are. Counts; they may miss a rollout between two of its stages.

    Where rounds of later steps are under way beside it, the counts by stage have their rollouts as well.
    """

    step: int
    split: Split
    rollouts: int
    """Of the round, replacements not counted."""
    ended: int
    """Graded, failed or excluded."""
    sampling: int = 0
    waiting_for_engine: int = 0
    calling: Mapping[str, int] = Field(default_factory=dict[str, int])
    """Calls that have no answer yet, by tool."""
    queued: Mapping[str, int] = Field(default_factory=dict[str, int])
    """Those of them that wait on our side for the endpoint to bear them, by tool; of no tool where gateway services
    make the calls."""
    grading: int = 0
    ungraded: int = 0
    """Conversations that ended, and wait for their grader to answer again."""
    later_rollouts: int = 0
    """Of rounds of later steps that are under way already."""
    later_ended: int = 0


class BaselineProgress(Record):
    """Where the rollouts of a baseline are."""

    model: str
    rollouts: int | None = None
    """All that are to be; None while its rows are read."""
    ended: int = 0


class RunProgress(Record):
    """One look at a run."""

    activity: Activity
    since: float
    """Unix time in seconds when this activity, or this round, began."""
    round: RoundProgress | None = None
    """While it rolls out."""
    baseline: BaselineProgress | None = None
    """While it measures one."""
    endpoints: tuple[NamedLoad, ...] = ()
    """What its tools and graders are given to bear, those that were called."""

    @property
    def message(self) -> str:
        """In one line, for people."""
        match self.activity:
            case Activity.BUILDING_STARTER:
                return "building the starter policy, once on this machine"
            case Activity.MEASURING_BASELINE:
                return "measuring a baseline" if self.baseline is None else _of_baseline(self.baseline)
            case Activity.LOADING:
                return "loading the model"
            case Activity.TRAINING:
                return "updating the policy"
            case Activity.ROLLING_OUT:
                return "rolling out" if self.round is None else ", ".join(_parts(self.round))


def _of_baseline(now: BaselineProgress) -> str:
    many = "" if now.rollouts is None else f": {now.ended:,} of {now.rollouts:,} rollouts ended"
    return f"measuring the baseline {now.model}{many}"


_ROUNDS = {
    Split.TRAIN: "step {}",
    Split.VALID: "validation of step {}",
    Split.TEST: "final figures, policy of step {}",
}


def _parts(now: RoundProgress) -> Iterator[str]:
    yield f"{_ROUNDS[now.split].format(now.step)}: {now.ended:,} of {now.rollouts:,} rollouts ended"
    if now.waiting_for_engine:
        yield f"{now.waiting_for_engine:,} waiting for the engine"
    if now.sampling:
        yield f"{now.sampling:,} sampling"
    for tool, count in sorted(now.calling.items(), key=lambda one: (-one[1], one[0])):
        queued = min(now.queued.get(tool, 0), count)
        yield f"{count:,} in `{tool}`" + (f" ({queued:,} queued)" if queued else "")
    if now.grading:
        yield f"{now.grading:,} grading"
    if now.ungraded:
        yield f"{now.ungraded:,} waiting for a grade"
    if now.later_rollouts:
        yield f"{now.later_ended:,} of {now.later_rollouts:,} of later steps ended"
