"""The API's application factory."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel

from rft.core.open_files import allow_many_open_files
from rft.platform.api import error_handlers
from rft.platform.api.admission import AdmissionMonitor
from rft.platform.api.authentication import PREFIX, AuthenticationMiddleware
from rft.platform.api.azure_paths import AzurePathMiddleware
from rft.platform.api.body_limit import BodyLimitMiddleware
from rft.platform.api.dependencies import AppServices, Services, require_key
from rft.platform.api.document import DocumentedApi
from rft.platform.api.errors import ErrorEnvelope
from rft.platform.api.host_check import HostMiddleware
from rft.platform.api.request_id import RequestIdMiddleware
from rft.platform.api.security_headers import SecurityHeadersMiddleware
from rft.platform.api.shared_replies import SharedRepliesMiddleware
from rft.platform.checkpoints.endpoints import router as checkpoints_router
from rft.platform.dashboard.asset_delivery import AssetDeliveryMiddleware
from rft.platform.dashboard.condition import condition_router
from rft.platform.dashboard.customer_endpoints import endpoints_router
from rft.platform.dashboard.endpoints import SESSION_PATH, links_router, session_router
from rft.platform.dashboard.file_uses import file_uses_router
from rft.platform.dashboard.judges import judges_router
from rft.platform.dashboard.keys import keys_router
from rft.platform.dry_runs.endpoints import registered_graders_router as grader_tests_router
from rft.platform.dry_runs.endpoints import registered_tools_router as tool_tests_router
from rft.platform.dry_runs.endpoints import router as dry_runs_router
from rft.platform.evals.endpoints import router as evals_router
from rft.platform.evals.run_endpoints import router as eval_runs_router
from rft.platform.files.endpoints import router as files_router
from rft.platform.files.sweeping import sweep_forever
from rft.platform.files.uploading import MAX_FILE_BYTES
from rft.platform.jobs.endpoints import router as jobs_router
from rft.platform.models.endpoints import permissions_router
from rft.platform.models.endpoints import router as models_router
from rft.platform.providers.chat_models import find_chat_model
from rft.platform.providers.endpoints import router as providers_router
from rft.platform.queue.publishing import Enqueuer
from rft.platform.registry.endpoints import graders_router as registered_graders_router
from rft.platform.registry.endpoints import tools_router
from rft.platform.registry.stored_urls import seal_stored_urls
from rft.platform.regrades.endpoints import router as regrades_router
from rft.platform.rehearsals.endpoints import router as rehearsals_router
from rft.platform.rollout_inbox.endpoints import router as rollout_inbox_router
from rft.platform.rollout_inbox.guard import InboxGuard
from rft.platform.rollout_inbox.news_signals import NewsSignals
from rft.platform.rollout_inbox.patience import Patience
from rft.platform.rollouts.endpoints import jobs_curves_router
from rft.platform.rollouts.endpoints import router as rollouts_router
from rft.platform.serving.endpoints import router as chat_router
from rft.platform.serving.playground.endpoints import router as playground_router
from rft.platform.serving.processes import ServingProcesses
from rft.platform.serving.responses.endpoints import router as responses_router
from rft.platform.serving.served_tokens import router as served_tokens_router
from rft.platform.settings import Settings, settings
from rft.platform.signing.endpoints import router as signing_router
from rft.platform.signing.service import ensure_signing_secret
from rft.platform.store.database import Database
from rft.platform.store.file_store import LocalFileStore
from rft.platform.store.secret_box import SecretBox
from rft.platform.store.stop_tasks import stop_tasks
from rft.platform.stream.endpoints import router as stream_router
from rft.platform.uploads.endpoints import router as uploads_router
from rft.platform.uploads.schemas import MAX_PART_BYTES
from rft.platform.uploads.sweeping import sweep_uploads
from rft.platform.worker.reconciler import reconcile_forever

_LOG = logging.getLogger(__name__)
_MAX_BODY_BYTES = 8 << 20
_SIGN_IN_BYTES = 4 << 10
"""Anybody may send one, and each is read on the event loop."""
_FORM_BYTES = 1 << 20
"""What a form adds to its file."""
_UPLOADS = re.compile(r"/v1/uploads/[^/]+/parts")
_ANY_REFUSAL: dict[int | str, dict[str, Any]] = {"4XX": {"description": ""}, "5XX": {"description": ""}}
"""The ranges keep FastAPI from announcing its own 422, which we never send; the document names the statuses."""
_INTERNAL = "/internal/"
_INTERNAL_BYTES = 64 << 20
"""Rollouts with all their tokens, many in one request."""
_DATA_PREFIXES = (f"{PREFIX}/", _INTERNAL, f"{SESSION_PATH}/", "/health/", "/openapi.json/")
_SHIPPED_WEB_ASSETS = Path(str(files("rft.platform").joinpath("web_assets")))


class Health(BaseModel):
    """The API answers and its database does, too."""

    status: str = "ok"


def create_app(
    wanted: Settings | None = None,
    *,
    enqueuer: Enqueuer | None = None,
    has_reconciler: bool = True,
    web_assets: Path | None = None,
) -> FastAPI:
    """The API and dashboard. Also what `uvicorn --factory` calls.

    `wanted`: the process's settings by default. `enqueuer`: publishes messages, Celery by default.
    `web_assets`: the built dashboard, the shipped one by default. Raises ValueError when no database is configured.
    """
    config = settings() if wanted is None else wanted
    app = DocumentedApi(
        title="Agent RFT",
        summary="Fine-tuning API in OpenAI's wire format.",
        version="1",
        lifespan=_lifespan(config, enqueuer, has_reconciler=has_reconciler),
        generate_unique_id_function=_operation_id,
        redirect_slashes=False,
        # Pages that show the document bring scripts, and scripts of others have no business where the session is.
        docs_url=None,
        redoc_url=None,
    )
    app.state.news_signals = NewsSignals()
    app.state.inbox_patience = Patience()
    error_handlers.install(app)
    app.add_middleware(SharedRepliesMiddleware)
    app.add_middleware(BodyLimitMiddleware, limit_bytes=_limit_bytes)
    app.add_middleware(AuthenticationMiddleware)
    app.add_middleware(InboxGuard)
    app.add_middleware(AzurePathMiddleware)
    if config.own_hosts:
        app.add_middleware(HostMiddleware, allowed=config.own_hosts)
    app.add_middleware(AssetDeliveryMiddleware)
    app.add_middleware(RequestIdMiddleware)
    app.add_middleware(SecurityHeadersMiddleware, data_prefixes=_DATA_PREFIXES)
    app.add_api_route(
        "/health", _health, name="health", methods=["GET"], tags=["health"], responses={503: {"model": ErrorEnvelope}}
    )
    app.router.routes.extend(_endpoints().routes)
    _serve_dashboard(app, web_assets or _SHIPPED_WEB_ASSETS)
    return app


@cache
def _endpoints() -> APIRouter:
    """What needs no settings, once a process: FastAPI looks at each parameter of each endpoint."""
    router = APIRouter(generate_unique_id_function=_operation_id)
    router.include_router(session_router, responses=_ANY_REFUSAL)
    router.include_router(rollout_inbox_router)
    # Each by itself, first models' answers and what the dashboard asks for: a request is held against one route after
    # the other, and once more for every router inside a router.
    for resource in (
        chat_router,
        responses_router,
        jobs_router,
        rollouts_router,
        checkpoints_router,
        files_router,
        uploads_router,
        permissions_router,
        models_router,
        stream_router,
        signing_router,
        tools_router,
        tool_tests_router,
        registered_graders_router,
        grader_tests_router,
        dry_runs_router,
        regrades_router,
        rehearsals_router,
        evals_router,
        eval_runs_router,
        links_router,
        keys_router,
        file_uses_router,
        endpoints_router,
        judges_router,
        condition_router,
        jobs_curves_router,
        playground_router,
        served_tokens_router,
        providers_router,
    ):
        router.include_router(resource, prefix=PREFIX, dependencies=[Depends(require_key)], responses=_ANY_REFUSAL)
    return router


def _limit_bytes(method: str, path: str) -> int:
    if path.startswith(_INTERNAL):
        return _INTERNAL_BYTES
    if path == SESSION_PATH:
        return _SIGN_IN_BYTES
    if method != "POST":
        return _MAX_BODY_BYTES
    if path == "/v1/files":
        return MAX_FILE_BYTES + _FORM_BYTES
    return MAX_PART_BYTES + _FORM_BYTES if _UPLOADS.fullmatch(path) else _MAX_BODY_BYTES


def _operation_id(route: APIRoute) -> str:
    return route.name


def _lifespan(config: Settings, enqueuer: Enqueuer | None, *, has_reconciler: bool):
    url = config.database_url
    if url is None:
        raise ValueError("DATABASE_URL is not set: `rft up` starts an embedded database and sets it")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        if enqueuer is None and config.broker_url is None:
            raise ValueError("BROKER_URL is not set: `rft up` starts an embedded queue and sets it")
        allow_many_open_files()  # Whoever starts uvicorn by hand has the few that a shell or a service begins with.
        # A burst of requests that takes all connections must not keep lost jobs lost.
        async with Database(url) as database, Database(url, max_connections=1) as own_connection:
            secret_box = SecretBox.at(config.home)
            async with database.transaction() as connection:
                await ensure_signing_secret(connection, secret_box)
            await seal_stored_urls(database, secret_box)
            app.state.services = Services(
                settings=config,
                database=database,
                file_store=LocalFileStore(config.files_dir),
                secret_box=secret_box,
                enqueuer=enqueuer,
                refuse_unknown_model=lambda uow, name: find_chat_model(uow, config, secret_box, name),
            )
            app.state.admissions = AdmissionMonitor(database)
            app.state.serving = ServingProcesses(config, database)
            chores = _start_chores(database, own_connection, config, enqueuer) if has_reconciler else []
            chores.append(asyncio.create_task(app.state.inbox_patience.watch()))
            yield
            await app.state.serving.aclose()
            await app.state.services.background.aclose()
            await stop_tasks(*chores)

    return lifespan


def _start_chores(
    database: Database, own_connection: Database, config: Settings, enqueuer: Enqueuer | None
) -> list[asyncio.Task[None]]:
    """What goes on beside the requests; each chore outlives its own failures."""
    return [
        asyncio.create_task(reconcile_forever(own_connection, settings=config, enqueuer=enqueuer)),
        asyncio.create_task(sweep_forever(database, LocalFileStore(config.files_dir), sweep_uploads)),
    ]


async def _health(services: AppServices) -> Health:
    """Whether the API and its database answer; needs no key."""
    await services.database.ping()
    return Health()


def _serve_dashboard(app: FastAPI, folder: Path) -> None:
    """The built assets, if this installation has them; unknown paths lead a browser to the dashboard's own routing."""
    if (folder / "index.html").is_file():
        app.frontend("/", directory=folder, fallback="index.html")
    else:
        _LOG.info("no dashboard in this installation: %s is missing", folder.name)
