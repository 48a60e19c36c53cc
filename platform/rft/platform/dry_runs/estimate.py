"""What an order would come to: checked as a job's, but nobody's endpoint is called and nothing is written."""

from collections.abc import Mapping, Sequence
from typing import Literal

from rft.core.hyperparameters import AUTO_STALENESS, LoraSpec, ResolvedHyperparameters
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import BadRequest
from rft.platform.dry_runs.estimate_objects import (
    EndpointEstimate,
    EstimateObject,
    EstimateWarning,
    RolloutsEstimate,
)
from rft.platform.dry_runs.measured_calls_repository import MeasuredCalls, measured_calls
from rft.platform.files.repository import FileRow
from rft.platform.jobs.creation import GRADER, check_baselines, check_files, with_test_file
from rft.platform.jobs.objects import to_resolved_object
from rft.platform.jobs.order_checks import (
    in_words,
    refuse_misdescribed_tools,
    refuse_undescribed_tools,
    unknown_fields,
    unserved_tools,
    unusable_files,
)
from rft.platform.jobs.order_warnings import order_warnings
from rft.platform.jobs.run_spec import resolved, to_lora
from rft.platform.orders.base_model_config import has_one_version
from rft.platform.orders.base_models import resolve_base
from rft.platform.orders.devices import refuse_unusable_devices
from rft.platform.orders.grader_schemas import (
    EndpointGrader,
    Grader,
    LabelModelGrader,
    RulerGrader,
    ScoreModelGrader,
)
from rft.platform.orders.grader_specification import leaves, refuse_unfillable_templates, refuse_without_judge
from rft.platform.orders.redaction import redacted_method
from rft.platform.orders.rollout_workers import refuse_unusable_workers
from rft.platform.orders.schemas import JobCreate, JobOrder
from rft.platform.registry.resolution import resolve_order
from rft.platform.rehearsals.auto_staleness import auto_staleness
from rft.platform.rehearsals.schemas import DEFAULT_CALLS
from rft.platform.store.unit_of_work import reading

_UNNAMED = "grader"


async def estimate_job(services: Services, wanted: JobOrder) -> EstimateObject:
    """Steps, rollouts, and what each endpoint has to bear.

    Raises BadRequest as the job's creation does, which also looks into the model, python sources and addresses.
    """
    base_model = resolve_base(wanted.model, services.settings)
    async with reading(services.database) as uow:
        order = await with_test_file(uow, (await resolve_order(uow.connection, services.secret_box, wanted)).order)
        files = await check_files(uow, order)
        await check_baselines(uow, services, order)
        tools = order.method.reinforcement.tools or []
        measured = {tool.name: await measured_calls(uow.connection, tool, model=order.model) for tool in tools}
        rows = {param: _rows(file, param) for param, file in files.items()}
        first = resolved(order.method.reinforcement, train_rows=rows["training_file"])
        method, rollouts = redacted_method(order.method), first.rollouts_per_step
        suiting = await auto_staleness(
            uow.connection,
            services.settings,
            method=method,
            model=order.model,
            rollouts=rollouts,
            has_one_version=has_one_version(base_model, services.settings.engine),
        )
    refuse_misdescribed_tools(files)
    refuse_undescribed_tools(tools, files.values())
    refuse_unusable_workers(services.settings, order.method.reinforcement.hyperparameters.policy_pin)
    refuse_unusable_devices(services.settings, order.method.reinforcement.hyperparameters.max_staleness)
    refuse_without_judge(order.method.reinforcement.grader, services.settings, param=GRADER)
    refuse_unfillable_templates(order.method.reinforcement.grader, param=GRADER)
    lora = to_lora(order.method.reinforcement, order.model, services.settings)
    told = to_estimate(order, rows, measured, auto_staleness=suiting.max_staleness, lora=lora)
    found = [EstimateWarning(code=f"invalid_{param}", message=why) for param, why in unusable_files(tools, files)]
    described = {name for file in files.values() if file.report is not None for name in file.report.tools}
    if (unserved := unserved_tools(order.method.reinforcement, described)) is not None:
        found.append(EstimateWarning(code="unserved_tools", message=unserved))
    return told.model_copy(update={"warnings": [*found, *told.warnings]})


def _rows(file: FileRow, param: str) -> int:
    rows = 0 if file.report is None else file.report.rows
    if rows == 0:
        raise BadRequest(f"The file '{file.id}' has no rows.", param=param, code=f"invalid_{param}")
    return rows


def to_estimate(
    order: JobCreate,
    rows: Mapping[str, int],
    measured: Mapping[str, MeasuredCalls | None],
    *,
    auto_staleness: int = AUTO_STALENESS,
    lora: LoraSpec | None = None,
) -> EstimateObject:
    """Pure. `rows`: of each file, by the field that names it; `measured`: by tool, None where nobody knows."""
    reinforcement = order.method.reinforcement
    train, valid, test = (rows.get(param, 0) for param in ("training_file", "validation_file", "test_file"))
    used = resolved(reinforcement, train_rows=train, auto_staleness=auto_staleness).model_copy(update={"lora": lora})
    evaluations = sum(map(used.is_evaluated, range(used.steps + 1))) if valid else 0
    of_baselines = len(reinforcement.baselines or []) * valid * used.eval_samples
    validation = evaluations * valid * used.eval_samples
    training = used.steps * used.rollouts_per_step
    final = (2 * test or valid) * used.eval_samples
    rollouts = RolloutsEstimate(
        training=training,
        validation=validation,
        final=final,
        baselines=of_baselines,
        total=training + validation + final + of_baselines,
    )
    return EstimateObject(
        train_rows=train,
        validation_rows=valid,
        test_rows=test,
        hyperparameters=to_resolved_object(used),
        evaluations=evaluations,
        rollouts=rollouts,
        endpoints=[
            *_of_tools(order, used, rollouts.total, measured),
            *_of_graders(reinforcement.grader, used, rollouts),
        ],
        warnings=[
            EstimateWarning(code=code, message=message) for code, message in _told(order, used, max(valid, test))
        ],
    )


def _of_tools(
    order: JobCreate, used: ResolvedHyperparameters, rollouts: int, measured: Mapping[str, MeasuredCalls | None]
) -> Sequence[EndpointEstimate]:
    tools = order.method.reinforcement.tools or []
    most = order.method.reinforcement.max_episode_steps
    assumed = (DEFAULT_CALLS if most is None else min(DEFAULT_CALLS, most)) / max(1, len(tools))
    found: list[EndpointEstimate] = []
    for tool in tools:
        known = measured.get(tool.name)
        per_rollout = assumed if known is None else known.per_rollout
        found.append(
            EndpointEstimate(
                stage="tool",
                name=tool.name,
                burst=used.burst,
                calls_per_rollout=per_rollout,
                calls=round(rollouts * per_rollout),
                measured_in=None if known is None else known.job_id,
            )
        )
    return found


def _of_graders(
    grader: Grader, used: ResolvedHyperparameters, rollouts: RolloutsEstimate
) -> Sequence[EndpointEstimate]:
    """Those that ask somebody; the others cost nobody anything."""
    found: list[EndpointEstimate] = []
    # What a ruler ranks in one call: there are no baselines beside it, and evaluations have groups of their own size.
    groups = rollouts.training // used.group_size + (rollouts.validation + rollouts.final) // used.eval_samples
    for _, variable, leaf in leaves(grader, GRADER):
        match leaf:
            case EndpointGrader():
                name = variable or leaf.name or _UNNAMED
                found.append(_asked("grader", name, used.burst, rollouts, rollouts.total))
            case ScoreModelGrader() | LabelModelGrader():
                found.append(_asked("judge", leaf.model, used.burst, rollouts, rollouts.total))
            case RulerGrader():
                found.append(_asked("judge", leaf.model, used.burst // used.group_size, rollouts, groups))
            case _:
                pass
    return found


def _asked(
    stage: Literal["grader", "judge"], name: str, burst: int, rollouts: RolloutsEstimate, calls: int
) -> EndpointEstimate:
    per_rollout = calls / rollouts.total
    return EndpointEstimate(
        stage=stage, name=name, burst=burst, calls_per_rollout=per_rollout, calls=calls, measured_in=None
    )


def _told(order: JobCreate, used: ResolvedHyperparameters, evaluated_rows: int) -> list[tuple[str, str]]:
    """What its owner would hear at once, as far as nobody has to be asked."""
    told = [(warning.code, warning.message) for warning in order_warnings(order, ())]
    unknown = unknown_fields(order)
    if unknown:
        told.append(("unknown_fields", f"These fields are not known here and have no effect: {in_words(unknown)}"))
    if used.evaluation_burst(evaluated_rows) > used.burst:
        message = (
            f"An evaluation starts {used.evaluation_burst(evaluated_rows):,} rollouts at once, more than training."
        )
        told.append(("evaluation_burst", message))
    return told
