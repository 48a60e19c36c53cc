"""A run's order held against its eval and what this platform has, before a row exists or is queued again."""

from dataclasses import dataclass
from typing import Any, cast

from rft.core.base import JsonObject
from rft.core.schema_fit import SchemaFit
from rft.grader_gateway.templates import TemplateError
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.evals.item_fit import item_misfit
from rft.platform.evals.item_variables import item_problem
from rft.platform.evals.repository import EvalRow
from rft.platform.evals.run_repository import RunRow
from rft.platform.evals.run_schemas import (
    FileContent,
    FileId,
    ItemReference,
    JsonlSource,
    MessageTemplate,
    RunCreate,
    SampledSource,
    SamplingParams,
)
from rft.platform.evals.run_tools import RUN_TOOLS, resolve_tools, shown_tool
from rft.platform.evals.schemas import OTHER_NAMES, item_schema_of
from rft.platform.files.repository import FileRepository
from rft.platform.orders.judge_fields import text_of
from rft.platform.orders.unknown_fields import refuse_misspelled
from rft.platform.providers.chat_models import find_chat_model
from rft.platform.store.unit_of_work import UnitOfWork

_SOURCE = "data_source"


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """What the order comes to."""

    model: str
    """Empty where nothing is sampled."""
    shown: JsonObject
    """The data source as it may be stored and shown."""
    tools: str | None
    """The tools whole, as JSON."""
    samples_per_row: int
    seed: int | None


async def check_run(uow: UnitOfWork, services: Services, eval_: EvalRow, order: RunCreate) -> CheckedRun:
    """Raises BadRequest, which names the field."""
    refuse_misspelled(order, other_names=OTHER_NAMES)
    source = order.data_source
    await _check_items(uow, eval_, source.source)
    shown: JsonObject = source.model_dump(mode="json", exclude_unset=True)
    if isinstance(source, JsonlSource) or (source.model is None and source.input_messages is None):
        _refuse_samples(order, None if isinstance(source, JsonlSource) else source.sampling_params)
        return CheckedRun("", shown, None, 1, None)
    sampling = source.sampling_params or SamplingParams()
    model = _model_of(source)
    await _check_model(uow, services, model)
    _check_messages(eval_, source)
    tools = await resolve_tools(uow, services.secret_box, sampling.tools or [])
    if sampling.tools is not None:
        written = cast("dict[str, Any]", shown["sampling_params"])
        written["tools"] = [shown_tool(tool) for tool in sampling.tools]
    sealed = RUN_TOOLS.dump_json(tools).decode() if tools else None
    return CheckedRun(model, shown, sealed, _samples(order, sampling), sampling.seed)


async def check_retry(uow: UnitOfWork, services: Services, run: RunRow) -> None:
    """Whether its file and its model are still there. Raises BadRequest.

    The file cannot be deleted before the caller's transaction ends.
    """
    if run.file_id is not None and await FileRepository(uow.connection).get_kept(run.file_id) is None:
        raise _no_file(run.file_id)
    if run.model:
        await _check_model(uow, services, run.model)


async def _check_items(uow: UnitOfWork, eval_: EvalRow, source: FileContent | FileId) -> None:
    if isinstance(source, FileId):
        if await FileRepository(uow.connection).get(source.id) is None:
            raise _no_file(source.id)
        return
    fit = SchemaFit.compiled(item_schema_of(eval_.data_source_config))
    for place, row in enumerate(source.content):
        misfit = item_misfit(fit, row.item)
        if misfit is not None:
            param = f"{_SOURCE}.source.content[{place}].item{f'.{misfit.place}' if misfit.place else ''}"
            message = f"Invalid '{param}': {misfit.message}. The eval's item schema wants it otherwise."
            raise BadRequest(message, param=param, code="item_schema_mismatch")


def _no_file(file_id: str) -> BadRequest:
    return BadRequest(f"No such file: {file_id}", param=f"{_SOURCE}.source.id", code="file_not_found")


def _refuse_samples(order: RunCreate, sampling: SamplingParams | None) -> None:
    if (order.samples_per_row or 1) > 1:
        message = "Invalid 'samples_per_row': nothing is sampled; each item is graded with the sample it brings."
        raise BadRequest(message, param="samples_per_row", code="invalid_value")
    if sampling is not None:
        param = f"{_SOURCE}.model"
        raise BadRequest(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")


def _model_of(source: SampledSource) -> str:
    for name in ("model", "input_messages"):
        if getattr(source, name) is None:
            param = f"{_SOURCE}.{name}"
            raise BadRequest(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")
    assert source.model is not None, "it was just looked at"
    return source.model


async def _check_model(uow: UnitOfWork, services: Services, name: str) -> None:
    """Raises BadRequest for a model that is none."""
    try:
        await find_chat_model(uow, services.settings, services.secret_box, name)
    except (NotFound, BadRequest) as error:
        raise BadRequest(error.message, param=f"{_SOURCE}.model", code=error.code) from error


def _check_messages(eval_: EvalRow, source: SampledSource) -> None:
    """Names that no item has, told before anything is sampled."""
    schema = item_schema_of(eval_.data_source_config)
    match source.input_messages:
        case MessageTemplate(template=messages):
            for place, message in enumerate(messages):
                param = f"{_SOURCE}.input_messages.template[{place}].content"
                _refuse_problem(item_problem(text_of(message.content), schema), param)
        case ItemReference(item_reference=reference):
            param = f"{_SOURCE}.input_messages.item_reference"
            try:
                _refuse_problem(item_problem("{{" + reference + "}}", schema), param)
            except TemplateError as error:
                raise BadRequest(f"Invalid '{param}': {error}.", param=param, code="invalid_value") from error
        case None:
            pass


def _refuse_problem(problem: str | None, param: str) -> None:
    if problem is not None:
        raise BadRequest(f"Invalid '{param}': {problem}", param=param, code="invalid_template_variable")


def _samples(order: RunCreate, sampling: SamplingParams) -> int:
    beside, among = order.samples_per_row, sampling.n
    if beside is not None and among is not None and beside != among:
        message = f"Invalid 'samples_per_row': {beside}, and 'n' among the sampling parameters is {among}."
        raise BadRequest(message, param="samples_per_row", code="invalid_value")
    return beside or among or 1
