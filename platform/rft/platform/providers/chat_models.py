"""Every model that can be measured, by its name: one of ours, or a provider's as `PROVIDER/MODEL`."""

import re
from dataclasses import dataclass
from typing import TypeAlias

from rft.egress.endpoint_client import EndpointClient
from rft.platform.api.errors import NotFound
from rft.platform.providers.repository import ProviderRepository
from rft.platform.providers.schemas import NAME, PricePerMillion
from rft.platform.providers.service import opened, price_of
from rft.platform.serving.processes import ServingProcesses
from rft.platform.serving.served_model import ServedModel, find_served
from rft.platform.serving.served_policy import ServedPolicy
from rft.platform.settings import Settings
from rft.platform.store.secret_box import SecretBox
from rft.platform.store.unit_of_work import UnitOfWork
from rft.rollouts.chat_policy import ChatPolicy
from rft.rollouts.provider_policy import ProviderEndpoint, ProviderPolicy

_PROVIDERS_MODEL = re.compile(f"({NAME})/(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ProviderModel:
    """A model of a registered provider."""

    provider: ProviderEndpoint
    """With its secrets, as it was when it was looked up."""
    model: str
    """As the provider calls it."""
    price: PricePerMillion | None = None


ChatModel: TypeAlias = ServedModel | ProviderModel


async def find_chat_model(uow: UnitOfWork, settings: Settings, box: SecretBox, name: str) -> ChatModel:
    """First among ours, then among the providers'. Raises NotFound and BadRequest with param `model`.

    Whether a provider has the model is known when it is asked.
    """
    try:
        return await find_served(uow, settings, name)
    except NotFound as unknown:
        found = None if name.startswith("ft:") else _PROVIDERS_MODEL.fullmatch(name)
        if found is None:
            raise
        row = await ProviderRepository(uow.connection).named(found[1])
        if row is None:
            message = f"The model '{name}' does not exist: it is none of ours, and there is no provider '{found[1]}'."
            raise NotFound(message, param="model", code="model_not_found") from unknown
        return ProviderModel(opened(row, box), found[2], price_of(row))


def policy_for(
    name: str,
    model: ChatModel,
    *,
    settings: Settings,
    processes: ServingProcesses,
    client: EndpointClient,
    owner: str = "",
) -> ChatPolicy:
    """What says the model's turns. `name`: its public one; `client`: of `open_provider_client`; `owner`: the run.

    The caller closes client and processes when its rollouts have ended.
    """
    match model:
        case ServedModel():
            return ServedPolicy.open(name, model, processes, max_concurrency=settings.serving_requests_at_once)
        case ProviderModel():
            return ProviderPolicy(client, model.provider, model.model, owner=owner)
