"""A run from spec to last word, through real sockets, as the platform starts it."""

import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from peft import PeftModel

from rft.chat.opening import open_saved_chat
from rft.chat.saved_chat import CHAT_TEMPLATE, read_saved_chat, weights_fingerprint
from rft.core.events import (
    Notice,
    RatiosMeasured,
    RolloutDone,
    RunEnded,
    RunStarted,
    StepDone,
    StillWaiting,
    TokensSampled,
    TrainEvent,
)
from rft.core.failure import Failure, FailureCode
from rft.core.messages import Message, Role
from rft.core.rollout import Split
from rft.core.spec import BaseDtype, Engine, RetryBudget, RunSecrets
from rft.core.token_record import unpack_tokens
from rft.engines.base_model import load_base_model
from rft.engines.tokenizer import load_tokenizer, open_model_chat
from rft.run_directory import layout
from rft.trainer.run import run
from tests.e2e.trainer.grade_gate import only_grades
from tests.e2e.trainer.harness import Broken, Customer, Trainer, adapter_bytes, events, letter_share, write_run

pytestmark = pytest.mark.timeout(900)


@pytest.mark.slow
def test_the_log_tells_every_step_and_rollout_and_the_checkpoints_are_usable(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=3, keeps_tokens=True)
    secrets = RunSecrets(tool_headers={"search": {"X-Key": "tool-secret"}}, grader_headers={"X-Key": "grader-secret"})
    trainer = Trainer.start_anew(run_dir, secrets)
    assert trainer.wait() == 0
    lines = events(run_dir)
    assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
    assert all(before.at <= after.at for before, after in pairwise(lines))
    told = [line.event for line in lines]
    assert told[0] == RunStarted(resumed_from_step=None, total_steps=3, pid=trainer.process.pid)
    assert isinstance(told[-1], RunEnded)
    assert told[-1].outcome == "succeeded"
    steps = [event for event in told if isinstance(event, StepDone)]
    assert [step.step for step in steps] == [0, 1, 2, 3]
    assert [step.valid is not None for step in steps] == [True, False, True, True]
    assert [step.train is not None for step in steps] == [False, True, True, True]
    rollouts = Counter((e.key.split, e.key.step) for e in told if isinstance(e, RolloutDone))
    assert rollouts == {(Split.VALID, 0): 3, (Split.VALID, 2): 3, (Split.VALID, 3): 3} | {
        (Split.TRAIN, step): 8 for step in (1, 2, 3)
    }
    assert_tokens_are_told(told)
    for step in steps[1:]:
        assert step.train is not None
        assert (step.train.rollouts, step.train.graded, step.train.groups) == (8, 8, 2)
        assert step.optimization is not None
        assert step.optimization.trained_rollouts == 8
        timing = step.timing
        parts = timing.sampling_s + timing.tools_s + timing.grading_s + timing.training_s + timing.eval_s
        assert parts == pytest.approx(timing.full_step_s, rel=0.1)
    best = told[-1].best_step
    assert best in (0, 2, 3)
    assert steps[-1].checkpoint.kept_steps[0] == best
    on_disk = {path.name for path in (run_dir / layout.CHECKPOINTS).iterdir()}
    assert on_disk == {f"checkpoint-{step}" for step in steps[-1].checkpoint.kept_steps}
    model = PeftModel.from_pretrained(load_base_model(str(base_model)), str(run_dir / steps[-1].checkpoint.path))
    assert torch.isfinite(model(input_ids=torch.tensor([[5, 6, 7]])).logits).all()
    keys = Counter(one.headers.get("x-key") for one in customer.received)
    assert keys["grader-secret"] == sum(rollouts.values())
    assert keys["tool-secret"] == len(customer.received) - keys["grader-secret"]
    assert b"secret" not in b"".join(path.read_bytes() for path in run_dir.rglob("*") if path.is_file())


def test_a_base_model_in_half_precision_is_trained_with_a_weight_for_each_token(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    """Its sampler computes in single precision, so that the two differ: by rounding, and by nothing else."""
    gaps: dict[str, list[float]] = {}
    for dtype in (BaseDtype.BFLOAT16, BaseDtype.AUTO):
        run_dir = write_run(
            tmp_path / dtype, base_model, customer.url, steps=2, engine=Engine.TRANSFORMERS,
            base_dtype=dtype, max_importance_gap=0.2,
        )  # fmt: skip
        assert Trainer.start(run_dir).wait() == 0
        told = [line.event for line in events(run_dir)]
        updates = [event.optimization for event in told if isinstance(event, StepDone) and event.optimization]
        assert all(update.trained_rollouts for update in updates)
        gaps[dtype] = [update.sampling_logp_difference or 0.0 for update in updates]
    assert len(gaps["bfloat16"]) == len(gaps["auto"]) == 2
    assert max(gaps["auto"]) < 1e-5
    assert 1e-4 < min(gaps["bfloat16"]) <= max(gaps["bfloat16"]) < 0.05


def assert_tokens_are_told(told: Sequence[TrainEvent]) -> None:
    """Of each rollout its own, and of each that was trained on its ratios; joined, they are what its record has."""
    sampled = {event.trace_id: event for event in told if isinstance(event, TokensSampled)}
    measured = [event for event in told if isinstance(event, RatiosMeasured)]
    prompts = {event.prompt: event.new_prompt for event in sampled.values() if event.new_prompt is not None}
    pieces = {token: piece for event in sampled.values() for token, piece in event.new_pieces.items()}
    for done in (event for event in told if isinstance(event, RolloutDone)):
        prompt, span = (
            unpack_tokens(prompts[sampled[done.trace_id].prompt]),
            unpack_tokens(sampled[done.trace_id].completion),
        )
        text = b"".join(pieces[token] for token in (*prompt.token_ids_T, *span.token_ids_T)).decode(errors="replace")
        assert sum(span.mask_T) == done.completion_tokens
        said = [message.content for message in done.messages if message.role is Role.USER]
        assert said
        assert all(content in text for content in said)
    trained = {e.trace_id for e in told if isinstance(e, RolloutDone) and e.key.split is Split.TRAIN}
    assert {event.trace_id for event in measured} == trained
    for event in measured:
        assert len(event.log_ratios) == 2 * sum(unpack_tokens(sampled[event.trace_id].completion).mask_T)


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_with_the_bytes_of_an_undisturbed_one(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    straight = write_run(tmp_path / "straight", base_model, customer.url, steps=5)
    assert run(straight, RunSecrets()).outcome == "succeeded"
    disturbed = write_run(tmp_path / "disturbed", base_model, customer.url, steps=5)
    chance, lines = random.Random(20), 0
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        with only_grades(
            customer, 17
        ):  # Three times as many are one too few for the run: it cannot end before it is told.
            trainer = Trainer.start(disturbed)
            lines += chance.randint(6, 20)
            trainer.wait_for_events(lines)
            trainer.signal(number)
            assert trainer.wait() == (0 if number == signal.SIGTERM else -number)
        customer.hear_the_last_of(trainer)
        lines = len(events(disturbed))
    assert Trainer.start(disturbed).wait() == 0
    assert adapter_bytes(disturbed, 5) == adapter_bytes(straight, 5)
    told = [line.event for line in events(disturbed)]
    assert [e.step for e in told if isinstance(e, StepDone)] == [0, 1, 2, 3, 4, 5]
    assert sum(isinstance(e, RunStarted) for e in told) == 4
    assert [e.outcome for e in told if isinstance(e, RunEnded)] == ["stopped", "succeeded"]
    assert valid_rewards(told) == valid_rewards([line.event for line in events(straight)])
    reached = None
    for event in told:  # Each process went on where the last complete step was.
        if isinstance(event, RunStarted):
            assert event.resumed_from_step == reached
        if isinstance(event, StepDone):
            reached = event.step


def test_a_template_changed_between_two_launches_pauses_the_run_and_put_back_lets_it_end(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(base_model, tmp_path / "model")
    run_dir, template = write_run(tmp_path / "run", model, customer.url, steps=1, valid_rows=1), model / CHAT_TEMPLATE
    with only_grades(customer, 1):  # That of the baseline.
        trainer = Trainer.start(run_dir)
        trainer.wait_for("step_done")
        trainer.signal(signal.SIGKILL)
        trainer.wait()
    customer.hear_the_last_of(trainer)
    before = template.read_text()
    template.write_text("Be brief. " + before)
    ended, told = run(run_dir, RunSecrets()), len(events(run_dir))
    assert (ended.outcome, ended.error_code) == ("paused", "model_changed")
    template.write_text(before)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    assert len(events(run_dir)) > told
    chat, question = open_saved_chat(run_dir / layout.checkpoint_dir(1)), Message(role=Role.USER, content="Why?")
    own = open_model_chat(str(model), load_tokenizer(str(model))).chat_format
    assert chat.prompt_ids([question], ()) == own.prompt_ids([question], ())


def begin_and_die(customer: Customer, run_dir: Path) -> None:
    """A launch that has nothing to show when it dies."""
    is_released = threading.Event()

    def score(text: str) -> float:
        is_released.wait()
        return letter_share(text)

    customer.score = score
    try:
        trainer = Trainer.start(run_dir)
        trainer.wait_for("rollouts_began")
        trainer.signal(signal.SIGKILL)
        trainer.wait()
    finally:
        is_released.set()
    assert not (run_dir / layout.checkpoint_dir(0) / layout.COMPLETE).exists()


def test_a_base_built_anew_before_anything_was_sampled_is_trained_and_bound_to(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(base_model, tmp_path / "model")
    run_dir = write_run(tmp_path / "run", model, customer.url, steps=1, valid_rows=1)
    weights = model / "model.safetensors"
    begin_and_die(customer, run_dir)
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    for folder in (layout.CHAT, layout.checkpoint_dir(1)):
        chat = read_saved_chat(run_dir / folder)
        assert chat is not None
        assert chat.record.weights_fingerprint == weights_fingerprint(str(model))


def test_a_template_changed_before_there_is_any_checkpoint_pauses_the_run_too(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(base_model, tmp_path / "model")
    run_dir, template = write_run(tmp_path / "run", model, customer.url, steps=1, valid_rows=1), model / CHAT_TEMPLATE
    begin_and_die(customer, run_dir)
    before = template.read_text()
    template.write_text("Be brief. " + before)
    ended = run(run_dir, RunSecrets())
    assert (ended.outcome, ended.error_code) == ("paused", "model_changed")
    template.write_text(before)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"


TORCH_IS_LATE = """
import os, pathlib, sys, time
late = pathlib.Path(os.environ["LATE"])

class Late:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            (late / "asked").touch()
            while not (late / "arrived").exists():
                time.sleep(0.01)

sys.meta_path.insert(0, Late())
"""
"""A `sitecustomize`: importing the trainer takes as long as the test wants it to."""


def test_a_stop_while_the_trainer_is_still_being_imported_is_a_stop_like_any_other(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    run_dir, late = write_run(tmp_path / "run", base_model, customer.url), tmp_path / "late"
    late.mkdir()
    (late / "sitecustomize.py").write_text(TORCH_IS_LATE)
    path = os.pathsep.join([str(late), *filter(None, [os.environ.get("PYTHONPATH")])])
    trainer = Trainer.start_anew(run_dir, environment={"PYTHONPATH": path, "LATE": str(late)})
    while not (late / "asked").exists():
        assert trainer.process.poll() is None, (run_dir / layout.LOG).read_text()[-2000:]
        time.sleep(0.02)
    trainer.signal(signal.SIGTERM)
    (late / "arrived").touch()
    assert trainer.wait() == 0
    told = [line.event for line in events(run_dir)]
    assert told == [
        RunStarted(resumed_from_step=None, total_steps=3, pid=trainer.process.pid),
        RunEnded(outcome="stopped", best_step=None),
    ]
    assert customer.received == []


def valid_rewards(told: Sequence[object]) -> list[float | None]:
    return [e.valid.reward_mean if e.valid else None for e in told if isinstance(e, StepDone)]


def test_a_random_policy_learns_what_the_grader_wants(
    customer: Customer, teachable_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rft.trainer.events._ALIVE_EVERY_S", 0.0)  # Of updates as short as these.
    run_dir = write_run(
        tmp_path / "run", teachable_model, customer.url,
        steps=10, group_size=8, engine="transformers", learning_rate=3e-2, max_tokens=4,
    )  # fmt: skip
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    log = [line.event for line in events(run_dir)]
    for step in range(1, 11):
        splits = [e.key.split if isinstance(e, RolloutDone) and e.key.step == step else None for e in log]
        done = next(place for place, e in enumerate(log) if isinstance(e, StepDone) and e.step == step)
        until = splits.index(Split.VALID) if Split.VALID in splits else done
        update = log[len(splits) - splits[::-1].index(Split.TRAIN) : until]
        assert any(isinstance(event, StillWaiting) for event in update), "an update tells that it lives"
    steps = [event for event in log if isinstance(event, StepDone)]
    rewards = [step.train.reward_mean for step in steps if step.train is not None]
    assert rewards[0] is not None
    assert 0.3 < rewards[0] < 0.65
    assert max(reward or 0.0 for reward in rewards) > 0.9
    validation = [step.valid.reward_mean for step in steps if step.valid is not None]
    assert validation[0] is not None
    assert (validation[-1] or 0.0) > validation[0] + 0.2
    updates = [step.optimization for step in steps[1:]]
    assert None not in updates
    gaps = [update.sampling_logp_difference for update in updates if update is not None]
    told = [gap for gap in gaps if gap is not None]
    assert told
    assert max(told) < 1e-5


@pytest.mark.parametrize(
    ("reply", "code", "why"),
    [
        (Broken(200, b'{"score": NaN}'), FailureCode.INVALID_SCORE, "the score nan, which is not finite"),
        (Broken(200, b"I quite like it."), FailureCode.INVALID_REPLY, "which is not JSON"),
        (Broken(500, b"out of order"), FailureCode.SERVER_ERROR, "answered 500"),
    ],
    ids=["nan", "prose", "500"],
)
def test_a_grader_that_never_grades_fails_the_run_by_name_and_trains_on_nothing(
    customer: Customer, base_model: Path, tmp_path: Path, reply: Broken, code: FailureCode, why: str
) -> None:
    customer.fault = lambda path, body: reply if path == "/grade" else None
    run_dir = write_run(tmp_path / "run", base_model, customer.url, retry=RetryBudget(max_retries=0))
    ended = run(run_dir, RunSecrets())
    assert ended.outcome == "failed"
    assert ended.error_code == "grader_failed"
    assert ended.error_message is not None
    assert "'letters'" in ended.error_message
    assert why in ended.error_message
    told = [line.event for line in events(run_dir)]
    outcomes = [event.outcome for event in told if isinstance(event, RolloutDone)]
    assert {o.code for o in outcomes if isinstance(o, Failure)} == {code}
    assert [e.step for e in told if isinstance(e, StepDone)] == [0]
    assert any(isinstance(e, Notice) and e.code == "nothing_graded" for e in told)
    assert told[-1] == ended


def test_equal_rewards_everywhere_are_told_as_no_signal_and_change_no_weight(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    customer.score = lambda text: 0.5
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=3, valid_rows=0)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    told = [line.event for line in events(run_dir)]
    assert [e.code for e in told if isinstance(e, Notice)] == ["no_signal"]
    assert adapter_bytes(run_dir, 3) == adapter_bytes(run_dir, 1)
    assert all(e.valid is None for e in told if isinstance(e, StepDone))


@pytest.mark.parametrize(
    ("file", "content", "code"),
    [
        (layout.SPEC, "{}", "invalid_spec"),
        (layout.TRAIN_ROWS, '{"messages": []}', "invalid_file"),
        (layout.TRAIN_ROWS, "", "invalid_file"),
    ],
)
def test_bad_input_fails_with_words_for_the_customer(
    customer: Customer, base_model: Path, tmp_path: Path, file: str, content: str, code: str
) -> None:
    run_dir = write_run(tmp_path / "run", base_model, customer.url)
    (run_dir / file).write_text(content)
    ended = run(run_dir, RunSecrets())
    assert (ended.outcome, ended.error_code) == ("failed", code)
    assert events(run_dir)[-1].event == ended


def test_a_missing_model_fails_by_name(customer: Customer, tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", tmp_path / "nowhere", customer.url)
    ended = run(run_dir, RunSecrets())
    assert ended.error_code == "unusable_model"
    assert "nowhere" in (ended.error_message or "")
