"""A run from its directory to its last word: everything is put together here, and every end is told in the log."""

import fcntl
import logging
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from pydantic import ValidationError

from rft.core import run_layout
from rft.core.dataset import DatasetRow
from rft.core.errors import RftError, RunAborted, SamplerError
from rft.core.events import RunEnded, RunStarted
from rft.core.spec import RunSecrets, RunSpec
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.hermes import ChatTemplateError, HermesChatFormat
from rft.trainer.background import Background
from rft.trainer.checkpoints import Checkpoints
from rft.trainer.data import BadDataset, read_rows, with_job_tools
from rft.trainer.engines.base import Engine
from rft.trainer.engines.choose import open_engine
from rft.trainer.events import EventWriter
from rft.trainer.fitting import split_by_fit, too_long_notice
from rft.trainer.grpo import PolicyTrainer, UpdateSettings
from rft.trainer.ledger import Ledger
from rft.trainer.open_rollouts import OpenRolloutsFile
from rft.trainer.policy import load_base_model
from rft.trainer.steps import Steps, Workplace, take_over
from rft.trainer.tokenizer import ChatTokenizer, UnusableModel, load_tokenizer, stop_ids
from rft.trainer.watch import RunFailed, Watch
from rft.trainer.wiring import occasion_of, open_hold, open_outside, rollout_setup

log = logging.getLogger(__name__)
_LOCK_PATIENCE_S = 20.0


class RunDirectoryBusy(RftError):
    """Another trainer holds the run directory."""


def run(run_dir: Path, secrets: RunSecrets) -> RunEnded:
    """Train until the last step, a stop or a failure; the event log tells all of it. Raises RunDirectoryBusy."""
    with _only_trainer(run_dir):
        events = EventWriter(run_dir / run_layout.EVENTS)
        background = Background()
        previous = signal.signal(signal.SIGTERM, lambda number, frame: background.stop())
        try:
            checkpoints = Checkpoints(run_dir)
            ended = _ending(run_dir, secrets, events, background, checkpoints)
            events.append(ended)
            return ended
        finally:
            signal.signal(signal.SIGTERM, previous)
            background.close()
            events.close()


def _ending(
    run_dir: Path, secrets: RunSecrets, events: EventWriter, background: Background, checkpoints: Checkpoints
) -> RunEnded:
    try:
        _train(run_dir, secrets, events, background, checkpoints)
    except RunAborted:
        return RunEnded(outcome="stopped", best_step=checkpoints.best_step)
    except Exception as error:
        if background.is_stopped:  # Whatever broke while everything was being taken down is no failure of the run.
            log.info("stopped while: %s", error)
            return RunEnded(outcome="stopped", best_step=checkpoints.best_step)
        log.exception("the run failed")
        code, message, param = _in_words(error)
        return RunEnded(
            outcome="failed",
            best_step=checkpoints.best_step,
            error_code=code,
            error_message=message,
            error_param=param,
        )
    return RunEnded(outcome="succeeded", best_step=checkpoints.best_step)


def _in_words(error: Exception) -> tuple[str, str, str | None]:
    """Code, message and param for the customer."""
    match error:
        case RunFailed():
            return error.code, str(error), error.param
        case BadDataset():
            return "invalid_file", str(error), error.param
        case UnusableModel() | ChatTemplateError():
            return "unusable_model", str(error), "model"
        case SamplerError():
            return "sampler_failed", f"The engine that samples from the policy failed: {error}", None
        case MemoryError() | torch.OutOfMemoryError():
            return "out_of_memory", "The machine ran out of memory; a smaller batch_size may help.", None
        case OSError() if error.errno == 28:
            return "disk_full", "The disk that holds the run is full.", None
        case _:
            return "internal_error", f"{type(error).__name__}: {error}", None


def _train(
    run_dir: Path, secrets: RunSecrets, events: EventWriter, background: Background, checkpoints: Checkpoints
) -> None:
    spec = read_spec(run_dir)
    torch.set_num_threads(spec.torch_threads)
    latest = checkpoints.latest
    resumed = take_over(events, checkpoints)
    events.append(
        RunStarted(
            resumed_from_step=resumed,
            total_steps=spec.hyperparameters.steps,
            pid=os.getpid(),
        )
    )
    if resumed == spec.hyperparameters.steps:
        return
    train = with_job_tools(read_rows(run_dir / run_layout.TRAIN_ROWS), spec.tools)
    valid = with_job_tools(valid_rows(run_dir), spec.tools)
    if not train:
        raise BadDataset(f"{run_layout.TRAIN_ROWS} holds no rows", "training_file")
    tokenizer = load_tokenizer(spec.base_model)
    chat_format = HermesChatFormat(ChatTokenizer(tokenizer, stop_ids(spec.base_model, tokenizer)))
    background.check()
    engine = open_engine(spec, chat_format)
    ledger, deadlines = Ledger(events), Deadlines()
    open_rollouts = OpenRolloutsFile(run_dir / run_layout.OPEN_ROLLOUTS)
    last = [engine.close, ledger.aclose]
    try:
        train = _fitting(train, "training_file", chat_format, engine, events)
        valid = _fitting(valid, "validation_file", chat_format, engine, events)
        hold = open_hold(spec, secrets, deadlines, events.append)
        on_change = None if hold is None else hold.on_change
        occasion = occasion_of(events.launches)
        outside = background.call(
            open_outside(
                spec,
                secrets,
                on_attempt=ledger.add,
                on_change=on_change,
                occasion=occasion,
                open_rollouts=open_rollouts,
            )
        )
        last.insert(0, partial(outside.aclose, background.stopped))
        background.call(outside.tell_left_open(open_rollouts.left))
        setup = rollout_setup(spec, outside, engine, chat_format, hold=hold, deadlines=deadlines)
        place = Workplace(spec, train, valid, setup, engine, background, events, checkpoints, ledger)
        steps = Steps(place, latest.watch if latest else Watch())
        trainer = PolicyTrainer(
            load_base_model(spec.base_model),
            tokenizer,
            _update_settings(spec),
            output_dir=checkpoints.folder,
            source=steps.rollouts,
            on_saved=steps.finish,
            check=background.check,
        )
        if resumed is None:
            steps.baseline(trainer.save_baseline)
        else:
            background.call(engine.publish(resumed, checkpoints.path_of(resumed)))
        trainer.train(resume_from_checkpoint=str(checkpoints.path_of(resumed)) if resumed else None)
    finally:
        background.finish(*(close() for close in last))
        open_rollouts.shut()


def read_spec(run_dir: Path) -> RunSpec:
    try:
        return RunSpec.model_validate_json((run_dir / run_layout.SPEC).read_bytes())
    except (OSError, ValidationError) as error:
        raise RunFailed("invalid_spec", f"{run_layout.SPEC} cannot be read: {error}") from error


def valid_rows(run_dir: Path) -> list[DatasetRow]:
    """None where the order has no validation file. Raises BadDataset."""
    path = run_dir / run_layout.VALID_ROWS
    return read_rows(path, param="validation_file") if path.exists() else []


def _fitting(
    rows: list[DatasetRow], param: str, chat_format: HermesChatFormat, engine: Engine, events: EventWriter
) -> list[DatasetRow]:
    """The rows a policy can answer; the customer is told of the others. Raises RunFailed when there are none."""
    limit = engine.max_context_tokens
    fitting, too_long = split_by_fit(rows, chat_format, max_context_tokens=limit)
    if too_long:
        notice = too_long_notice(too_long, file=param.replace("_", " "), max_context_tokens=limit)
        if not fitting:
            raise RunFailed("rows_too_long", notice.message, param)
        events.append(notice)
    return fitting


def _update_settings(spec: RunSpec) -> UpdateSettings:
    wanted = spec.hyperparameters
    return UpdateSettings(
        steps=wanted.steps,
        rows_per_step=wanted.burst,
        learning_rate=spec.lora.learning_rate * wanted.learning_rate_multiplier,
        lora=spec.lora,
        loss_type=spec.loss_type,
        temperature=spec.temperature,
        seed=spec.seed,
    )


@contextmanager
def _only_trainer(run_dir: Path) -> Generator[None]:
    """Hold the directory's lock; a predecessor that is dying gets some time."""
    deadline_s = time.monotonic() + _LOCK_PATIENCE_S
    with (run_dir / run_layout.LOCK).open("ab") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    raise RunDirectoryBusy(f"another trainer holds {run_dir}") from None
                time.sleep(0.1)
        yield
