"""What the event log of a run must show at its end, however often its processes were killed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rft.core.events import EventLine, RolloutDone, RolloutsVoided, RunEnded, RunStarted, StepDone
from rft.core.grade import Grade
from rft.core.rollout import Split
from rft.core.spec import RunSpec
from rft.run_directory import layout
from rft.run_directory.files import read_spec
from rft.trainer.data import read_rows, row_order
from tests.e2e.trainer.harness import Received, events

Place = tuple[int, int, int]
"""Step, row and index of a training rollout."""


def assert_trained_once(run_dir: Path) -> None:
    """The run succeeded, and trained each place of its rows' order on one rollout; what had finished was kept."""
    lines, spec = events(run_dir), read_spec(run_dir)
    ended = lines[-1].event
    assert isinstance(ended, RunEnded)
    assert ended.outcome == "succeeded", ended
    wanted, each = spec.hyperparameters, spec.hyperparameters.rollouts_per_step
    steps = [line.event for line in lines if isinstance(line.event, StepDone)]
    assert [record.step for record in steps] == list(range(wanted.steps + 1))
    for record in steps[1:]:
        assert record.train is not None
        assert record.optimization is not None
        assert (record.train.rollouts - record.train.replaced, record.train.graded) == (each, each)
        assert record.optimization.trained_rollouts <= each
        assert (record.optimization.staleness_max or 0) <= wanted.max_staleness
    told = Counter(done.trace_id for done in _done(lines))
    assert set(told.values()) == {1}, "each is told once"
    void = _void(lines)
    graded = [done for done in _done(lines) if done.trace_id not in void and isinstance(done.outcome, Grade)]
    assert Counter(map(_place, graded)) == Counter(_places(spec, run_dir)), "each place once, and no other"
    assert not _lost(lines, wanted.max_staleness), "what had finished keeps its place"


def assert_none_failed(run_dir: Path) -> None:
    """Whatever happened to processes, no rollout ended in a failure."""
    assert not [done for done in _done(events(run_dir)) if not isinstance(done.outcome, Grade)]


def assert_asked_once(received: Iterable[Received]) -> None:
    """No call of a rollout came to the customer twice."""
    calls = Counter((one.path, one.trace_id, one.body.get("call_id")) for one in received)
    assert set(calls.values()) == {1}


def _places(spec: RunSpec, run_dir: Path) -> list[Place]:
    """As the seed deals the rows."""
    wanted, rows = spec.hyperparameters, read_rows(run_dir / layout.TRAIN_ROWS)
    order = row_order(rows=len(rows), batch_size=wanted.batch_size, steps=wanted.steps, seed=spec.seed)
    return [
        (step, row.row_index, index)
        for step, batch in enumerate(order, start=1)
        for row in batch
        for index in range(wanted.group_size)
    ]


def _place(done: RolloutDone) -> Place:
    return done.key.step, done.key.row_index, done.key.index


def _done(lines: Sequence[EventLine]) -> list[RolloutDone]:
    """Training rollouts that ended, each as often as it was told."""
    told = [line.event for line in lines if isinstance(line.event, RolloutDone)]
    return [done for done in told if done.key.split is Split.TRAIN]


def _void(lines: Sequence[EventLine]) -> set[str]:
    """Ids of what does not count: not kept when the run was taken over, or kept and then without a place."""
    void: set[str] = set()
    before: list[RolloutDone] = []
    for line in lines:
        match line.event:
            case RolloutDone() as done:
                before.append(done)
            case RolloutsVoided() as voided:
                void.update(voided.trace_ids)
            case RunStarted() as started:
                resumed = -1 if started.resumed_from_step is None else started.resumed_from_step
                void |= {done.trace_id for done in before if done.key.step > resumed} - set(started.kept)
            case _:
                pass
    return void


def _lost(lines: Sequence[EventLine], max_staleness: int) -> set[str]:
    """Ids of what was told before its process died, could be trained after it, and was not."""
    lost: set[str] = set()
    before: list[RolloutDone] = []
    void = _void(lines)
    for line in lines:
        if isinstance(line.event, RolloutDone) and line.event.key.split is Split.TRAIN:
            before.append(line.event)
        if isinstance(line.event, RunStarted) and before:
            resumed = -1 if line.event.resumed_from_step is None else line.event.resumed_from_step
            lost |= {
                done.trace_id
                for done in before
                if done.key.step > resumed
                and max(0, done.key.step - 1 - max_staleness) <= done.policy_version <= resumed
                and done.trace_id in void
            }
    return lost
