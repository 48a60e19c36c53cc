"""What a run does once torch is there: model, engine and ways out are put together, then come baseline and steps."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import torch
from transformers import PreTrainedModel

from rft.chat.chat_format import ChatFormat
from rft.core.dataset import DatasetRow
from rft.core.errors import GpuLost, RunFailed, RunPaused
from rft.core.events import RoundRedone
from rft.core.spec import RunSpec
from rft.core.step_record import Optimization
from rft.engines.base import Engine, StartingEngine
from rft.engines.base_model import load_base_model
from rft.engines.choose import open_engine
from rft.engines.tokenizer import load_tokenizer, token_bytes
from rft.rollouts.connections import ConnectionOptions, open_connections
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.live import LiveRollouts
from rft.rollouts.wiring import open_hold, rollout_setup
from rft.run_directory import layout
from rft.run_directory.files import read_spec
from rft.run_directory.open_rollouts import OpenRolloutsFile
from rft.trainer.beginnings import Beginnings
from rft.trainer.endings import tell_end
from rft.trainer.engine_probe import EngineProbe
from rft.trainer.events import EventWriter
from rft.trainer.fitting import split_by_fit
from rft.trainer.given_out import GivenOut
from rft.trainer.gpu_share import own_gpu, rest_of_gpu, shares_gpu, take_no_more_than, with_gpu_share
from rft.trainer.grpo import PolicyTrainer
from rft.trainer.heap import return_large_blocks
from rft.trainer.ledger import Ledger
from rft.trainer.loop_thread import LoopThread
from rft.trainer.losses import ClipRange
from rft.trainer.progress import ProgressReporter
from rft.trainer.ranks.gpus import check_gpu
from rft.trainer.ranks.messages import SetUp
from rft.trainer.ranks.other_ranks import OtherRanks
from rft.trainer.ranks.sharding import sharded_notice, shards_base
from rft.trainer.ranks.world import World
from rft.trainer.rounds import StepContext
from rft.trainer.run_chat import open_run_chat
from rft.trainer.run_context import RunContext
from rft.trainer.run_health import RunHealth
from rft.trainer.steps import Steps
from rft.trainer.taking_turns import turns_notice, turns_of
from rft.trainer.token_budget import is_gpu_lost, is_out_of_memory
from rft.trainer.token_log import TokenLog
from rft.trainer.update_dtype import update_dtype
from rft.trainer.update_settings import UpdateSettings


def train(context: RunContext) -> None:
    """From the start or the latest complete checkpoint to the last step. Raises RunAborted, and whatever fails."""
    torch.set_num_threads(context.spec.torch_threads)
    return_large_blocks()
    check_gpu(context.world, context.spec.devices, context.events.append)
    try:
        with _other_ranks(context) as ranks:
            _train(context, ranks)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise MemoryError(str(error)) from error
        if is_gpu_lost(error):
            raise GpuLost(str(error)) from error
        raise


@contextmanager
def _other_ranks(context: RunContext) -> Generator[OtherRanks | None]:
    """None where this process is the only one."""
    if context.other_ranks is None:
        yield None
        return
    ranks = OtherRanks(
        context.other_ranks,
        torch_threads=context.spec.torch_threads,
        check=context.loop_thread.check,
        on_lost=context.loop_thread.fail,
        on_stuck=partial(tell_end, context.events, context.checkpoints),
    )
    try:
        yield ranks
    finally:
        ranks.close()


def _train(context: RunContext, ranks: OtherRanks | None) -> None:
    spec, secrets, events, loop_thread = context.spec, context.secrets, context.events, context.loop_thread
    checkpoints, resumed = context.checkpoints, context.resumed_from_step
    live = LiveRollouts()
    progress = ProgressReporter(context.folder, live, note_alive=events.note_alive)
    loop_thread.call(progress.start())
    tokenizer = load_tokenizer(spec.base_model)
    chat_folder = context.folder / layout.CHAT
    earlier_chat = chat_folder if resumed is None else checkpoints.path_of(resumed)
    has_samples = resumed is not None or bool(context.finished.kept)
    run_chat = open_run_chat(spec, tokenizer, earlier_chat, has_samples=has_samples)
    run_chat.saved.write_once(chat_folder, is_binding=has_samples)
    spec = run_chat.with_thought_limit(spec)
    chat_format, checkpoints.chat = run_chat.chat_format, run_chat.saved
    loop_thread.check()
    base_dtype = update_dtype(spec)
    spec = _with_gpu_share(spec, base_dtype, events)
    settings = _update_settings(spec, base_dtype, context.world, events)
    load_others = _loading_of(ranks, spec, settings)
    is_gpu_shared = shares_gpu(spec, own_gpu())
    if not is_gpu_shared:  # First: they load what we do, meanwhile.
        load_others()
    take_no_more_than(rest_of_gpu(spec, own_gpu()))
    engine = open_engine(spec, secrets, chat_format, context.folder)
    ledger, deadlines = Ledger(events), Deadlines()
    open_rollouts = OpenRolloutsFile(context.folder / layout.OPEN_ROLLOUTS)
    last = [engine.close, ledger.aclose, progress.aclose]
    try:
        epochs = spec.hyperparameters.n_epochs
        train = _fitting(context.train, "training_file", chat_format, engine, events, epochs=epochs)
        valid = _fitting(context.valid, "validation_file", chat_format, engine, events)
        test = _fitting(context.test, "test_file", chat_format, engine, events)
        hold = open_hold(spec, secrets, deadlines, events.append)
        on_change = None if hold is None else hold.on_change
        connections = loop_thread.call(
            open_connections(
                spec,
                secrets,
                ConnectionOptions(ledger.add, on_change, ledger.failed_calls, events.launches, open_rollouts),
            )
        )
        last.insert(0, partial(connections.aclose, loop_thread.stopped))
        live.queued, progress.loads = connections.queued, connections.loads
        known = {**open_rollouts.outcomes, **context.finished.outcomes}
        loop_thread.call(connections.tell_left_open(open_rollouts.left, known))

        def tell_redo(redone: RoundRedone) -> None:
            context.finished.forget(redone.step, redone.split)
            ledger.flush()  # Whatever was attempted for the void rollouts is told before they are void.
            events.append(redone)

        setup = rollout_setup(
            spec,
            connections,
            engine,
            chat_format,
            hold=hold,
            deadlines=deadlines,
            on_begun=Beginnings(events, ledger).tell,
            on_redo=tell_redo,
            live=live,
        )
        if spec.rollout_workers is not None:
            given_out = GivenOut(read_spec(context.folder), secrets, tell=events.append, on_attempt=ledger.add)
            last.insert(0, given_out.aclose)
            loop_thread.call(
                given_out.open(run_chat, max_context_tokens=engine.max_context_tokens, connections=connections)
            )
            live.elsewhere = given_out.stages.now
            setup = replace(setup, executor=given_out.executor)
        prompt_ids = chat_format.prompt_ids(train[0].messages, train[0].tools)
        probe = EngineProbe(engine, loop_thread, prompt_ids, temperature=spec.temperature)
        token_log = TokenLog(events.append, token_bytes(tokenizer).of) if spec.keeps_tokens else None
        left_out = frozenset(row.index for row in context.train).difference(row.index for row in train)
        step_context = StepContext(
            spec, train, valid, test, setup, engine, loop_thread, events, checkpoints, ledger,
            context.finished, on_published=probe.published, left_out=left_out, token_log=token_log,
        )  # fmt: skip
        latest = checkpoints.latest
        steps = Steps(step_context, latest.health if latest else RunHealth())

        def before_update(step: int, optimization: Optimization) -> None:
            if token_log is not None:
                token_log.measured(trainer.figures.ratios)
            steps.judge_gap(step, optimization)

        def check() -> None:
            loop_thread.check()
            events.note_alive()  # A step of many micro-batches may take hours; a single one that hangs is noticed.

        after = partial(_start_all, engine, loop_thread, load_others) if is_gpu_shared else _do_nothing
        trainer = PolicyTrainer(
            _base_model(spec, settings, ranks, after),
            tokenizer,
            settings,
            output_dir=checkpoints.folder,
            source=steps.rollouts,
            on_saved=steps.finish,
            before_update=before_update,
            check=check,
            is_over=lambda: steps.are_over,
            ranks=ranks,
            computing=turns_of(spec, engine, loop_thread),
            most=_alone if ranks is None else ranks.most,
        )
        if ranks is not None:
            ranks.wait_until_ready(trainer.policy)
            probe.passing = ranks.passing
        probe.policy = trainer.policy
        if resumed is None:
            steps.baseline(trainer.save_baseline)
        else:
            loop_thread.call(engine.publish(resumed, checkpoints.path_of(resumed)))
        if not steps.are_over:
            _take_steps(trainer, steps, str(checkpoints.path_of(resumed)) if resumed else None)
        steps.measure_best()
    finally:
        loop_thread.finish(*(close() for close in last))
        open_rollouts.shut()


def _loading_of(ranks: OtherRanks | None, spec: RunSpec, settings: UpdateSettings) -> Callable[[], None]:
    """What lets other ranks begin to load."""
    if ranks is None:
        return _do_nothing
    # One that computed on its CPU would hold all others up in every step, and nothing would tell why.
    order = SetUp(spec.base_model, settings, spec.torch_threads, needs_gpu=torch.cuda.is_available())
    return partial(ranks.set_up, order)


def _start_all(engine: Engine, loop_thread: LoopThread, load_others: Callable[[], None]) -> None:
    """A server takes for its own what changes on its GPU while it starts: base models are loaded after that."""
    assert isinstance(engine, StartingEngine), "vLLM's servers alone share a GPU with an update"
    loop_thread.call(engine.open_all())
    load_others()


def _base_model(
    spec: RunSpec, settings: UpdateSettings, ranks: OtherRanks | None, after: Callable[[], None]
) -> PreTrainedModel:
    after()
    load = partial(load_base_model, spec.base_model, settings.base_dtype)
    return load() if ranks is None else ranks.base_model(load)


def _take_steps(trainer: PolicyTrainer, steps: Steps, resume_from: str | None) -> None:
    """To the last one, or to the one whose evaluation ends the run. Raises RunFailed, RunPaused where a step broke."""
    try:
        trainer.train(resume_from_checkpoint=resume_from)
    except (RunFailed, RunPaused):
        with suppress(RunFailed, RunPaused):
            steps.complete_evaluation()
        if not steps.are_over:  # Otherwise the run has ended with that evaluation: what broke is no step of it.
            raise


def _with_gpu_share(spec: RunSpec, base_dtype: torch.dtype, events: EventWriter) -> RunSpec:
    """Raises RunPaused where server and update do not fit; the customer is told where they take turns."""
    spec = with_gpu_share(spec, own_gpu(), base_dtype)
    if spec.vllm.takes_turns:
        events.append(turns_notice(spec.vllm.gpu_memory_share))
    return spec


def _fitting(
    rows: Sequence[DatasetRow],
    param: str,
    chat_format: ChatFormat,
    engine: Engine,
    events: EventWriter,
    *,
    epochs: int | None = None,
) -> list[DatasetRow]:
    """The rows a policy can answer; the customer is told of the others. Raises RunFailed when there are none."""
    limit = engine.max_context_tokens
    fit = split_by_fit(rows, chat_format, max_context_tokens=limit)
    notices = fit.notices(file=param.replace("_", " "), max_context_tokens=limit, epochs=epochs)
    if notices and not fit.fitting:
        code = "rows_too_long" if fit.too_long else "rows_refused_by_template"
        raise RunFailed(code, " ".join(notice.message for notice in notices), param)
    for notice in notices:
        events.append(notice)
    return fit.fitting


def _do_nothing() -> None:
    return


def _alone(passes: int) -> int:
    return passes


def _update_settings(spec: RunSpec, base_dtype: torch.dtype, world: World, events: EventWriter) -> UpdateSettings:
    wanted, is_sharded = spec.hyperparameters, shards_base(spec, world, own_gpu(), base_dtype)
    if is_sharded:
        events.append(sharded_notice(world.size))
    return UpdateSettings(
        steps=wanted.steps,
        learning_rate=spec.lora.learning_rate * wanted.learning_rate_multiplier,
        lora=spec.lora,
        loss_type=spec.loss_type,
        temperature=spec.temperature,
        seed=spec.seed,
        micro_batch_tokens=spec.micro_batch_tokens,
        max_completion_tokens=spec.budgets.max_tokens,
        beta=wanted.beta,
        clip=ClipRange(wanted.epsilon, wanted.epsilon_high),
        warmup_steps=wanted.warmup_steps,
        schedule=wanted.lr_scheduler_type,
        is_weighted=spec.is_weighted,
        keeps_ratios=spec.keeps_tokens,
        base_dtype=base_dtype,
        ranks_on_host=world.local_size,
        is_sharded=is_sharded,
        gives_memory_back=spec.vllm.takes_turns,
    )
