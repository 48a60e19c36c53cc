"""From a model's public name to what answers for it."""

from dataclasses import dataclass
from pathlib import Path

from rft.core.chat_spec import ChatSpec
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.jobs.run_spec import to_budgets, to_lora
from rft.platform.models.service import final_step, find_fine_tuned
from rft.platform.orders.base_models import STARTER, base_models, chat_of_job, chat_spec
from rft.platform.orders.schemas import Method
from rft.platform.settings import Settings
from rft.platform.store.unit_of_work import UnitOfWork
from rft.serving_wire.records import AdapterRef


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A base model, or an adapter over one."""

    base_model: str
    """Directory or hub name: models with the same one share a process."""
    chat: ChatSpec
    adapter: AdapterRef | None
    """Its budgets are those of the order that trained it, and of today's settings where the order names none."""
    rank: int = 0
    """Of its adapter."""


def find_base(settings: Settings, name: str) -> ServedModel | None:
    """A registered base model; None for another name. Raises BadRequest for one that nobody has built yet."""
    path = base_models(settings).get(name)
    return None if path is None else ServedModel(_there(name, path), _plain(chat_spec(name, settings)), None)


async def find_served(uow: UnitOfWork, settings: Settings, name: str) -> ServedModel:
    """Raises NotFound for a model that is none, or no longer kept; BadRequest for one that nobody has built yet."""
    if (base := find_base(settings, name)) is not None:
        return base
    job, checkpoint = await find_fine_tuned(uow, settings, name)
    path = await final_step(uow, job) if checkpoint is None else checkpoint.path
    directory = None if path is None else settings.runs_dir / job.id / path
    if directory is None or not directory.is_dir():
        raise NotFound(
            f"The checkpoint of the model '{name}' is no longer kept.", param="model", code="model_not_found"
        )
    order = Method.model_validate(job.method).reinforcement
    trained = (job.resolved and job.resolved.lora) or to_lora(order, job.model, settings)
    adapter = AdapterRef(
        directory=str(directory),
        chat=_plain(job.chat or chat_of_job(job.model, settings)),
        reasoning_effort=order.hyperparameters.reasoning_effort,
        budgets=to_budgets(order, settings),
    )
    there = _there(name, job.base_model_path)
    return ServedModel(there, _plain(chat_spec(job.model, settings)), adapter, trained.rank)


def _plain(chat: ChatSpec) -> ChatSpec:
    return ChatSpec.model_validate(chat.model_dump(include=set(ChatSpec.model_fields)))


def _there(name: str, path: str) -> str:
    """Where the base model lies. A hub name may lie anywhere."""
    if not path.startswith(("/", "~", ".")):
        return path
    directory = Path(path).expanduser()
    if (directory / "config.json").is_file():
        return str(directory)
    unbuilt, empty = "is built when a first job trains it", "is registered, but there is none in its directory"
    why = unbuilt if name == STARTER else empty
    raise BadRequest(f"The model '{name}' {why}.", param="model", code="model_not_ready")
