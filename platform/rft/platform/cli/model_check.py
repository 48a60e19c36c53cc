"""`rft models check`: whether a base model can be trained to use tools, and how its chat is read."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from rft.core.base import Record
from rft.core.model_check import ModelCheck, ModelFigures, cannot_sample
from rft.core.spec import Engine
from rft.core.update_spec import MANY_STEPS, UpdateWanted, resolve_update
from rft.platform.cli.formats import json_text, printable
from rft.platform.cli.inputs import CannotDo

if TYPE_CHECKING:
    from rft.platform.settings import Settings


class CheckedModel(Record):
    """A base model as a job would find it."""

    model: str
    path: str
    max_context_tokens: int | None
    """Prompt and completion at most; None where the model's configuration does not tell."""
    longrope_tokens: int | None = None
    """What LongRoPE limits it to; None where the model's positions are others."""
    engine: str
    """What jobs sample with here."""
    check: ModelCheck

    @property
    def problem(self) -> str | None:
        """Why an order of it is refused here."""
        check = self.check
        if check.problem is not None:
            return f"cannot be trained to use tools: {check.problem}"
        if check.engine_problem is not None and self.engine == Engine.TRANSFORMERS:
            return f"cannot be trained: {cannot_sample(check.engine_problem)}"
        return None


def check_model(
    settings: "Settings",
    model: Annotated[str, Argument(metavar="NAME|PATH", help="A base model's name here, or its directory.")],
    reasoning_effort: Annotated[
        Literal["default", "none", "minimal", "low", "medium", "high"],
        Option("--reasoning-effort", help="How much it is to think, as in an order."),
    ] = "default",
    as_json: Annotated[bool, Option("--json", help="Print a report for programs.")] = False,
) -> None:
    """Tell how a base model's chat is read, as a job's creation finds it; 1 where it cannot be trained."""
    found = look_at(model, reasoning_effort, settings)
    typer.echo(json_text(found.model_dump(mode="json")) if as_json else printable("\n".join(report_lines(found))))
    if found.problem is not None:
        raise typer.Exit(1)


def look_at(model: str, reasoning_effort: str, settings: "Settings") -> CheckedModel:
    """By a process of its own. Raises CannotDo where there is nothing to look at."""
    from subprocess import SubprocessError

    from pydantic import ValidationError

    from rft.platform.orders.base_model_config import context_tokens, longrope_tokens
    from rft.platform.orders.base_models import base_models, chat_spec
    from rft.platform.orders.model_checks import check_files

    path, chat = base_models(settings).get(model, model), chat_spec(model, settings)
    try:
        check = check_files(path, chat, reasoning_effort)
    except (OSError, SubprocessError, ValidationError) as problem:
        raise CannotDo(f"{path} could not be looked at: {problem}") from problem
    if check is None:
        known = ", ".join(sorted(base_models(settings))) or "none"
        raise CannotDo(
            f"there is no tokenizer.json in {path}; elsewhere, the trainer looks at it when a job begins."
            f" Base models here: {known}"
        )
    return CheckedModel(
        model=model,
        path=path,
        max_context_tokens=context_tokens(path, chat.max_context_tokens),
        longrope_tokens=longrope_tokens(path),
        engine=settings.engine,
        check=check,
    )


def report_lines(found: CheckedModel) -> Iterator[str]:
    """The same for a person."""
    check = found.check
    name = found.model if found.model == found.path else f"{found.model} ({found.path})"
    if found.problem is not None:
        yield f"{name} {found.problem}"
        return
    whose = "a template of ours" if check.is_template_shipped else "the model's own template"
    switch = check.thinking_switch
    context = found.max_context_tokens
    yield f"{name} can be trained to use tools"
    yield f"  chat format: {check.chat_format}, by {whose} (fingerprint {check.template_fingerprint})"
    yield f"  stop tokens: {' '.join(check.stop_tokens)}"
    yield f"  tool calls:  {'several in a turn' if check.takes_parallel_calls else 'one in a turn'}"
    yield f"  tools:       {'listed' if check.lists_tools else 'not listed'} to the model by its template"
    yield f"  thinking:    {f'switched by {switch}' if switch else 'no switch, reasoning_effort has no effect'}"
    yield f"  context:     {'not known' if context is None else f'{context:,} tokens'} of prompt and completion at most"
    if context is not None and context == found.longrope_tokens:
        yield "               beyond, LongRoPE has one long rollout change what is computed of all others in its batch"
    yield f"  engines:     {'vllm alone: ' + check.engine_problem if check.engine_problem else 'transformers, vllm'}"
    if check.figures is not None:
        yield from _figure_lines(check.figures)
        yield f"  auto:        {_auto(check)}"


def _figure_lines(figures: ModelFigures) -> Iterator[str]:
    """What it takes of the memory, in single precision."""
    yield f"  weights:     {_gib(figures.weights_bytes)}, {figures.parameters / 1e6:,.1f} million parameters"
    activations, training = figures.activation_bytes, figures.training_bytes
    if activations is None or training is None:
        yield "  training:    not known: its layers do not tell what an update keeps"
    else:
        yield (
            f"  training:    {_gib(training)}: weights, adapter with optimizer {_gib(figures.adapter_bytes)},"
            f" {figures.micro_batch_tokens:,} tokens at once {_gib(activations)}"
        )
    cache, sampling = figures.cache, figures.sampling_bytes
    if cache is not None and sampling is not None:
        yield (
            f"  sampling:    {_gib(sampling)} with a full cache: up to {cache.conversations} conversations at once,"
            f" {cache.bytes_per_token / 2**10:,.1f} KiB a token; beside the training, in the same process"
        )


def _auto(check: ModelCheck) -> str:
    """What is chosen where nobody chooses."""
    figures = check.figures
    assert figures is not None
    budget = "" if figures.micro_batch_tokens is None else f", micro-batches of {figures.micro_batch_tokens:,} tokens"
    update = resolve_update(UpdateWanted(), steps=MANY_STEPS, parameters=figures.parameters)
    warm_up = f"{update.warmup_steps} steps of warm-up in a long job" if update.warmup_steps else "no warm-up"
    return (
        f"engine {check.auto_engine}{budget}, contexts of {figures.max_context_tokens:,} tokens\n"
        f"               adapter of rank {figures.adapter_rank} on {' '.join(figures.adapter_layers)}\n"
        f"               {update.lr_scheduler_type} learning rate, {warm_up}, temperature {update.temperature:g},"
        f" beta {update.beta:g}"
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:,.2f} GiB"
