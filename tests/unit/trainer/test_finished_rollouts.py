"""The journals of finished rollouts: what the next process keeps, whatever the last one left behind."""

import resource
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rft.core.events import EventLine, RolloutDone, RolloutsVoided, TrainEvent
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.messages import Message, Role, ToolCall, ToolResult
from rft.core.rollout import Rollout, RolloutKey, Split, StopReason
from rft.core.turns import TokenSpan, Trace, Turn
from rft.rollouts.kept_rollouts import place_of
from rft.rollouts.stats import to_rollout_done
from rft.run_directory import layout
from rft.testing.trace_ids import trace_id_at
from rft.trainer.events import EventWriter
from rft.trainer.finished_journal import Journal, JournalLine, read_journal
from rft.trainer.finished_rollouts import AdapterDigests, FinishedRollouts, forget_finished

TIMEOUT = Failure(stage=Stage.TOOL, code=FailureCode.TIMEOUT, message="search is silent", endpoint="search")


def a_key(index: int, *, step: int = 3, split: Split = Split.TRAIN, attempt: int = 0) -> RolloutKey:
    return RolloutKey(
        job_id="ftjob-1", job_seed=7, split=split, step=step, epoch=0, row_index=0, index=index, attempt=attempt
    )


def ended(
    key: RolloutKey, outcome: Grade | Failure | None = None, *, version: int = 2, conversation: int = 0
) -> Rollout:
    """Two turns, with what is awkward to write down exactly."""
    call = ToolCall(call_id="call_1", name="search", arguments='{"q": "\\u0000 é \n"}')
    result = ToolResult(call_id="call_1", name="search", output="line\nbreak \u2028", latency_s=0.1 + 0.2, attempts=1)
    turn = Turn("a", "<a>", (call,), (result,), completion_tokens=2, sampling_s=1 / 3, tools_s=5e-324)
    span = TokenSpan.sampled((5, 9), (-0.1 - 0.2, -1e-17))
    return Rollout(
        key=key,
        trace_id=trace_id_at(key, conversation=conversation),
        policy_version=version,
        trace=Trace((1, 2), [span, TokenSpan.context((7,))], [turn]),
        stop_reason=StopReason.COMPLETED,
        outcome=outcome or Grade(reward=0.1 + 0.2, scores={"letters": 1 / 3}, grader="letters"),
        messages=(
            Message(role=Role.USER, content="Why?"),
            Message(role=Role.ASSISTANT, content="a", tool_calls=(call,)),
        ),
        duration_s=1.1,
        sampling_s=1 / 3,
        tools_s=0.2,
        grading_s=0.3,
    )


@dataclass(slots=True)
class Run:
    """A run directory, and the processes that take it over."""

    folder: Path
    resumed: int | None = 2
    terms: str = "terms"

    def adapter(self, version: int, content: bytes) -> None:
        checkpoint = self.folder / layout.checkpoint_dir(version)
        checkpoint.mkdir(parents=True, exist_ok=True)
        (checkpoint / "adapter_model.safetensors").write_bytes(content)

    @contextmanager
    def process(self) -> Generator[tuple[FinishedRollouts, EventWriter]]:
        events = EventWriter(self.folder / layout.EVENTS)
        adapters = AdapterDigests(lambda version: self.folder / layout.checkpoint_dir(version))
        finished = FinishedRollouts(self.folder, events, adapters, terms=self.terms, resumed=self.resumed)
        try:
            yield finished, events
        finally:
            finished.close()
            events.close()

    def finish(self, *rollouts: Rollout, replaced: tuple[Rollout, ...] = (), told: bool = True) -> None:
        """One process ends these, and dies."""
        with self.process() as (finished, events):
            for rollout in (*replaced, *rollouts):
                finished.add(rollout, is_replaced=rollout in replaced)
                if told:
                    events.append(to_rollout_done(rollout))

    def told(self) -> list[TrainEvent]:
        return [
            EventLine.model_validate_json(line).event
            for line in (self.folder / layout.EVENTS).read_bytes().splitlines()
        ]

    def journal(self, step: int = 3, split: Split = Split.TRAIN) -> Path:
        return self.folder / layout.finished_journal(step, split)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path)
    run.adapter(2, b"weights of step 2")
    return run


def test_what_ended_with_a_grade_keeps_its_place_to_the_last_bit(run: Run) -> None:
    graded, failed = [ended(a_key(index)) for index in range(2)], ended(a_key(2), TIMEOUT)
    run.finish(*graded, failed)
    with run.process() as (finished, _):
        assert set(finished.kept) == {rollout.trace_id for rollout in graded}
        assert finished.outcomes == {rollout.trace_id: rollout.outcome for rollout in graded}
        finished.tell_untold()
        with finished.round(3, Split.TRAIN, 2) as kept:
            taken = kept.take([a_key(index) for index in range(4)], only_whole=False)
    assert [one and one.rollout for one in taken] == [*graded, None, None]
    assert [type(event) for event in run.told()] == [RolloutDone] * 3, "nothing is told again"


def test_what_a_group_of_one_verdict_refused_is_no_part_of_another(run: Run) -> None:
    """A process that dies as it writes the second verdict down leaves neither whole, nor one of both."""
    keys = [a_key(index) for index in range(4)]
    run.finish(*(ended(key) for key in keys[1:]))
    with run.process() as (finished, _), suppress(OSError), finished.round(3, Split.TRAIN, 2) as kept:
        assert kept.take(keys, only_whole=True) == [None] * 4
        kept.drop_refused()
        finished.add(ended(keys[0], conversation=1), is_replaced=False)
        raise OSError("No space left on device")
    assert [event.trace_ids for event in run.told() if isinstance(event, RolloutsVoided)] == [
        tuple(trace_id_at(key) for key in keys[1:])
    ]
    with run.process() as (finished, _), finished.round(3, Split.TRAIN, 2) as kept:
        assert kept.take(keys, only_whole=True) == [None] * 4
        kept.drop_refused()
        for key in keys:
            finished.add(ended(key, conversation=2), is_replaced=False)
    with run.process() as (finished, _), finished.round(3, Split.TRAIN, 2) as kept:
        taken = kept.take(keys, only_whole=True)
    assert [one and one.rollout for one in taken] == [ended(key, conversation=2) for key in keys]


def test_replaced_failures_come_with_the_grade_and_their_grant(run: Run) -> None:
    failed = ended(a_key(0), TIMEOUT)
    graded = ended(a_key(0, attempt=1))
    run.finish(graded, replaced=(failed,))
    with run.process() as (finished, _), finished.round(3, Split.TRAIN, 2) as kept:
        [one] = kept.take([a_key(0)], only_whole=False)
    assert one is not None
    assert one.rollout == graded
    assert [(before.rollout, before.is_replaced) for before in one.failed] == [(failed, True)]
    assert set(finished.kept) == {failed.trace_id, graded.trace_id}


def test_a_failure_that_is_done_again_is_not_met_by_a_third_process(run: Run) -> None:
    """It would count as one whose place the grade took, although its first process's was void."""
    run.finish(ended(a_key(0), TIMEOUT), ended(a_key(1)))
    run.finish(ended(a_key(0), conversation=1))
    with run.process() as (finished, _), finished.round(3, Split.TRAIN, 2) as kept:
        assert [one and len(one.ended) for one in kept.take([a_key(0), a_key(1)], only_whole=False)] == [1, 1]


@pytest.mark.parametrize("change", ["version", "adapter"])
def test_what_another_policy_sampled_is_void_before_the_round_begins(run: Run, change: str) -> None:
    run.adapter(3, b"weights of step 3")
    evaluated = ended(a_key(0, split=Split.VALID), version=3)
    run.finish(evaluated)
    if change == "adapter":
        run.adapter(3, b"weights of step 3, done again")
    else:
        run.adapter(4, b"weights of step 3")
    with run.process() as (finished, _):
        assert finished.kept == (evaluated.trace_id,)
        with finished.round(3, Split.VALID, 3 if change == "adapter" else 4) as kept:
            assert run.told()[-1] == RolloutsVoided(step=3, trace_ids=(evaluated.trace_id,))
            assert kept.take([a_key(0, split=Split.VALID)], only_whole=False) == [None]
    assert not run.journal(split=Split.VALID).exists(), "a third process does not bring it back"


@pytest.mark.parametrize(("change", "is_kept"), [(None, True), ("newer", False), ("older", False), ("bound", False)])
def test_what_several_policies_sampled_turn_by_turn_is_kept_where_all_of_them_are_still_the_same(
    run: Run, change: str | None, is_kept: bool
) -> None:
    run.resumed = 3
    run.adapter(3, b"weights of step 3")
    rollout = ended(a_key(0, step=4))
    rollout.turns[0] = replace(rollout.turns[0], policy_version=3)
    run.finish(rollout)
    if change in ("older", "newer"):
        run.adapter(2 if change == "older" else 3, b"done again")
    with run.process() as (finished, _):
        oldest = 3 if change == "bound" else 2
        with finished.round(4, Split.TRAIN, 3, oldest=oldest) as kept:
            assert [one is not None for one in kept.take([a_key(0, step=4)], only_whole=False)] == [is_kept]


def test_what_found_no_place_is_void_once_the_round_has_ended_well(run: Run) -> None:
    first, second = ended(a_key(0)), ended(a_key(1))
    run.finish(first, second)
    with run.process() as (finished, _), suppress(KeyError), finished.round(3, Split.TRAIN, 2) as kept:
        kept.take([a_key(0)], only_whole=False)
        raise KeyError("stopped in the middle")
    assert not any(isinstance(event, RolloutsVoided) for event in run.told())
    with run.process() as (finished, _):
        assert set(finished.kept) == {first.trace_id, second.trace_id}
        with finished.round(3, Split.TRAIN, 2) as kept:
            kept.take([a_key(0)], only_whole=False)
        assert run.told()[-1] == RolloutsVoided(step=3, trace_ids=(second.trace_id,))
    with run.process() as (finished, _):
        assert finished.kept == (first.trace_id,)


def test_other_terms_let_nothing_be_kept(run: Run) -> None:
    run.finish(ended(a_key(0)))
    run.terms = "another grader"
    with run.process() as (finished, _):
        assert finished.kept == ()
    assert not run.journal().exists()


def test_what_the_log_lacks_is_told_by_the_next_process_once(run: Run) -> None:
    told, untold = ended(a_key(0)), ended(a_key(1))
    run.finish(told)
    with run.process() as (finished, _):
        finished.add(untold, is_replaced=False)
    for _ in range(2):
        with run.process() as (finished, _):
            finished.tell_untold()
            assert set(finished.kept) == {told.trace_id, untold.trace_id}
    assert run.told() == [to_rollout_done(told), to_rollout_done(untold)]


def test_journals_go_with_their_step_and_only_with_it(run: Run) -> None:
    run.adapter(3, b"weights of step 3")
    now, evaluation = ended(a_key(0)), ended(a_key(0, split=Split.VALID), version=3)
    later = ended(a_key(0, step=4))
    run.finish(now, evaluation, later)
    with run.process() as (finished, _):
        finished.forget(3)
    assert [path.name for path in (run.folder / layout.FINISHED).iterdir()] == [run.journal(4).name]
    with run.process() as (finished, _):
        assert finished.kept == (later.trace_id,)


def test_a_step_that_is_complete_leaves_nothing_but_the_measurement_of_the_best_policy(run: Run) -> None:
    """Killed between the checkpoint's completion and the journals' end."""
    measured = ended(a_key(0, step=1, split=Split.TEST), version=2)
    run.finish(ended(a_key(0, step=2)), measured, ended(a_key(0, step=0, split=Split.TEST)))
    run.resumed = 2
    with run.process() as (finished, _):
        assert finished.kept == (measured.trace_id,)
    forget_finished(run.folder)
    assert not (run.folder / layout.FINISHED).exists()


def test_a_round_that_is_done_anew_keeps_nothing_of_before(run: Run) -> None:
    run.finish(ended(a_key(0)), ended(a_key(1)))
    with run.process() as (finished, _), finished.round(3, Split.TRAIN, 2) as kept:
        kept.take([a_key(0)], only_whole=False)
        finished.forget(3, Split.TRAIN)
        anew = ended(a_key(0, attempt=1))
        finished.add(anew, is_replaced=False)
    assert not any(isinstance(event, RolloutsVoided) for event in run.told()), "the round itself was told to be void"
    with run.process() as (finished, _):
        assert finished.kept == (anew.trace_id,)


def test_an_engine_in_doubt_leaves_nothing_of_any_step_under_way(run: Run) -> None:
    run.finish(ended(a_key(0)), ended(a_key(1)), ended(a_key(0, step=4)))
    with run.process() as (finished, _), finished.round(3, Split.TRAIN, 2) as kept:
        kept.take([a_key(0)], only_whole=False)
        finished.keep_nothing()
        finished.add(ended(a_key(1, step=4)), is_replaced=False)
    with run.process() as (finished, _):
        assert finished.kept == ()


def test_without_its_adapter_nothing_is_written(run: Run) -> None:
    run.finish(ended(a_key(0), version=9))
    with run.process() as (finished, _):
        assert finished.kept == ()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(cut=st.integers(0, 10_000), graded=st.integers(1, 3))
def test_whatever_is_torn_the_whole_lines_are_kept_and_can_be_appended_to(run: Run, cut: int, graded: int) -> None:
    forget_finished(run.folder)
    rollouts = [ended(a_key(index)) for index in range(graded)]
    run.finish(*rollouts)
    whole = run.journal().read_bytes()
    left = whole[: cut % (len(whole) + 1)]
    run.journal().write_bytes(left)
    # The last line is whole without its end.
    survivors = [
        rollout for place, rollout in enumerate(rollouts) if left.count(b"\n") + _is_whole(left, whole) >= place + 2
    ]
    with run.process() as (finished, _):
        assert list(finished.kept) == [rollout.trace_id for rollout in survivors]
    run.finish(ended(a_key(5)))
    lines = read_journal(run.journal(), run.terms)
    assert [line.rollout for line in lines.lines] == [*survivors, ended(a_key(5))]
    assert lines.is_clean


def _is_whole(left: bytes, whole: bytes) -> bool:
    return len(left) < len(whole) and whole[len(left)] == ord("\n") and left.count(b"\n") > 0


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    path, line = tmp_path / "journal.jsonl", JournalLine("digest", False, ended(a_key(0)))
    journal = Journal(path, "terms")
    journal.append(line)
    size = path.stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            journal.append(replace(line, is_replaced=True))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        journal.close()
    assert path.stat().st_size == size
    assert read_journal(path, "terms").lines == [line]


def test_places_of_all_attempts_are_one() -> None:
    later = a_key(0, attempt=3).model_copy(update={"seed_attempt": 1})
    assert place_of(later) == a_key(0)
