"""The OpenAPI document against the API: requests made up from it get no server error and nothing it does not announce,
what it calls well-formed is taken, what it does not is refused.

Left out: the live stream, which does not end. `RFT_OPENAPI_EXAMPLES=300` makes up that many requests for every
operation, beside those that cover its schema, and covers every kind of grader wherever one is taken.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from psycopg import sql
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.engine.recorder import ScenarioRecorder
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.schemas import BaseSchema

from rft.platform.embedded.postgres import EmbeddedPostgres
from tests.integration.api.furnished_api import FurnishedApi, furnished_api
from tests.integration.api.openapi_acquaintance import Case, acquaint, acquaint_order
from tests.integration.api.openapi_checks import CHECKS, ONCE_FOR_EACH_OPERATION, SEQUENCE_CHECKS
from tests.integration.api.openapi_document import DOCUMENT, with_few_graders
from tests.shared.running_api import EXACT

EXAMPLES = int(os.environ.get("RFT_OPENAPI_EXAMPLES", "0"))
GENERATION = {
    "deterministic": True,
    "max-examples": EXAMPLES or 3,
    "database": "none",
    "with-security-parameters": False,
}
FEW_REQUESTS = (
    ()
    if EXAMPLES
    else (
        "POST /v1/rehearsals",
        "POST /v1/fine_tuning/alpha/jobs/estimate",
        "POST /v1/fine_tuning/alpha/graders/run",
        "POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/regrade",
        "POST /v1/evals",
        "POST /v1/evals/{eval_id}/runs",
    )
)
"""A rehearsal's `method` is a job's, an estimate takes a job's order, and what an eval, a regrade or a dry run grades
with are graders: those are covered where they are made, and made up here. All fields of a run's unions take longer than
everything else together."""
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
    if not path.endswith("/stream")
]


def operations_schema(phases: dict[str, Any]) -> BaseSchema:
    """All operations, and how requests are made up for them."""
    config = schemathesis.Config.from_dict({"seed": 1, "generation": GENERATION, "phases": phases})
    document = DOCUMENT if EXAMPLES else with_few_graders(DOCUMENT)
    return schemathesis.openapi.from_dict(document, config=config).exclude(path_regex="/stream$")


@pytest.fixture(scope="module")
def schema() -> BaseSchema:
    """With requests that cover every field."""
    return operations_schema({})


@pytest.fixture(scope="module")
def sparing_schema() -> BaseSchema:
    """Without them."""
    return operations_schema({"coverage": {"enabled": False}})


@pytest.fixture(scope="module")
def authorized() -> set[str]:
    """The operations that have been shown to want a key."""
    return set()


@contextmanager
def api_of_its_own(postgres: EmbeddedPostgres, folder: Path) -> Generator[FurnishedApi]:
    """On a database that goes with it."""
    name = f"openapi_{folder.name}"
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
        with furnished_api(postgres.url(name), folder) as api:
            yield api
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def furnished(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FurnishedApi]:
    """One API for all made-up requests."""
    with api_of_its_own(postgres, tmp_path_factory.mktemp("kept")) as api:
        yield api


@pytest.fixture
def emptied(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FurnishedApi]:
    """One for requests that delete what they find."""
    with api_of_its_own(postgres, tmp_path_factory.mktemp("emptied")) as api:
        yield api


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    """Keeps connections; knows no key."""
    with requests.Session() as session:
        yield session


@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_unannounced_comes_back(
    operation: str,
    schema: BaseSchema,
    sparing_schema: BaseSchema,
    furnished: FurnishedApi,
    session: requests.Session,
    authorized: set[str],
) -> None:
    def send(case: Case) -> None:
        acquaint(case, furnished)
        reply = case.call(furnished.url, session, key_of(furnished), timeout=120)
        checks = CHECKS
        if reply.status_code == 200 and operation not in authorized:
            authorized.add(operation)
            checks = CHECKS + ONCE_FOR_EACH_OPERATION
        case.validate_response(
            reply,
            checks,
            headers=key_of(furnished),
            transport_kwargs={"base_url": furnished.url, "headers": key_of(furnished)},
        )

    # Requests are made up here and not by `schema.parametrize`, which does it in every process that collects tests.
    chosen = (sparing_schema if operation in FEW_REQUESTS else schema).include(name=operation)
    (made_up,) = get_all_tests(schema=chosen, test_func=send, settings=None, given_kwargs=None)
    assert isinstance(made_up, Ok)
    _, send_all = made_up.ok()
    send_all()


def test_good_requests_get_what_is_announced(
    schema: BaseSchema, furnished: FurnishedApi, session: requests.Session
) -> None:
    endpoint = {"type": "endpoint", "name": "remote", "url": furnished.grader_url, "headers": {"X-Key": "hush-hush"}}
    multi = {"type": "multi", "graders": {"a": EXACT, "b": endpoint}, "calculate_output": "(a + b) / 2"}
    tools = [{"name": name, "server_url": furnished.tool_url} for name in ("search", "cat")]
    method = {"type": "reinforcement", "reinforcement": {"grader": multi, "tools": tools, "max_episode_steps": 5}}
    order: dict[str, Any] = {"model": "tiny", "training_file": furnished.known["file_id"][0], "method": method}
    code = {"type": "python", "source": "def grade(sample, item):\n    return 1.0\n"}
    config = {"type": "custom", "item_schema": {"type": "object"}, "include_sample_schema": True}
    content = [{"item": {"answer": 7}, "sample": {"output_text": "7"}}, {"item": {}}]
    items = {"type": "jsonl", "source": {"type": "file_content", "content": content}}
    trained = {"fine_tuning_job_id": furnished.known["fine_tuning_job_id"][0]}
    tool_id, grader_id = furnished.known["tool_id"][0], furnished.known["grader_id"][0]
    provider_id = furnished.known["provider_id"][0]
    good: list[tuple[str, dict[str, str], dict[str, Any]]] = [
        ("/v1/fine_tuning/jobs", {}, {**order, "metadata": {"team": "a"}, "suffix": "x", "mine": 1}),
        ("/v1/rehearsals", {}, {**order, "calls_per_rollout": 2}),
        ("/v1/fine_tuning/alpha/graders/run", {}, {"grader": multi, "model_sample": "7", "item": {"answer": "7"}}),
        ("/v1/fine_tuning/alpha/graders/run", {}, {"grader": code, "model_sample": "7"}),
        ("/v1/fine_tuning/alpha/graders/validate", {}, {"grader": multi}),
        ("/v1/fine_tuning/alpha/tool/run", {}, {**tools[0], "arguments": "{}"}),
        ("/v1/tools", {}, {**tools[0], "headers": {"X-Key": "hush-hush"}, "parameters": {"type": "object"}}),
        ("/v1/tools/{tool_id}", {"tool_id": tool_id}, {"description": "Looks things up.", "rate_limit": 5.0}),
        ("/v1/tools/{tool_id}/test", {"tool_id": tool_id}, {"arguments": {"query": "x"}}),
        ("/v1/graders", {}, {"grader": multi}),
        ("/v1/graders/{grader_id}", {"grader_id": grader_id}, {"grader": endpoint}),
        ("/v1/graders/{grader_id}/test", {"grader_id": grader_id}, {"model_sample": "7", "item": {"answer": "7"}}),
        ("/v1/evals", {}, {"name": "all", "data_source_config": config, "testing_criteria": [multi, EXACT, code]}),
        ("/v1/providers", {}, {"name": "new", "base_url": "http://127.0.0.1:9/v1", "api_key": "hush-hush"}),
        ("/v1/providers/{provider_id}", {"provider_id": provider_id}, {"requests_per_minute": 60.0}),
        ("/v1/evals/{eval_id}/runs", {"eval_id": furnished.known["eval_id"][0]}, {"data_source": items}),
        ("/v1/fine_tuning/jobs/{fine_tuning_job_id}/regrade", trained, {"grader": EXACT, "steps": [1, 2]}),
    ]
    for path, ids, body in good:
        case = schema[path]["POST"].Case(path_parameters=ids, body=body)
        reply = case.call_and_validate(furnished.url, session, key_of(furnished), CHECKS, timeout=120)
        assert reply.status_code == 200, (path, reply.text)
        assert "hush-hush" not in reply.text


def test_every_operation_is_described(furnished: FurnishedApi) -> None:
    assert requests.get(f"{furnished.url}/openapi.json", timeout=60).json() == DOCUMENT
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    ]
    ids = [operation["operationId"] for _, operation in operations]
    assert len(set(ids)) == len(ids) > 45
    for name, operation in operations:
        assert operation["summary"], name
        assert operation["description"], name
        assert operation["tags"], name
        assert operation["responses"]["200"]["content"], name
        assert all("x-request-id" in response["headers"] for response in operation["responses"].values()), name
        assert not {"4XX", "5XX", "422", "default"} & operation["responses"].keys(), name
        refusals = {status: reply for status, reply in operation["responses"].items() if status >= "400"}
        for status, reply in refusals.items():
            assert reply["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorEnvelope"), (name, status)
        wanted = {"503"} if name == "GET /health" else {"400", "401", "500", "503"}
        assert wanted | ({"404"} if "{" in name else set()) <= refusals.keys(), name
        assert name == "GET /health" or "/dashboard/session" in name or operation["security"], name


def test_what_was_made_is_there_until_it_is_deleted(
    schema: BaseSchema, emptied: FurnishedApi, session: requests.Session
) -> None:
    headers = key_of(emptied)
    target: dict[str, Any] = {"base_url": emptied.url, "headers": headers}

    class Sequence(schema.as_state_machine()):  # pyright: ignore[reportUntypedBaseClass]
        """Requests that go on from earlier replies."""

        recorder: ScenarioRecorder

        def before_call(self, case: Case) -> None:
            acquaint_order(case, emptied)

        def get_call_kwargs(self, case: Case) -> dict[str, Any]:
            return {**target, "session": session, "timeout": 120}

        def validate_response(
            self, response: Response, case: Case, additional_checks: list[Any] | None = None, **kwargs: Any
        ) -> None:
            case.validate_response(
                response, SEQUENCE_CHECKS, headers=headers, transport_kwargs=target, recorder=self.recorder
            )

    Sequence.run(
        settings=settings(
            max_examples=EXAMPLES or 10,
            stateful_step_count=8,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        )
    )


def key_of(furnished: FurnishedApi) -> dict[str, str]:
    """The headers of a caller with a key."""
    return {"Authorization": f"Bearer {furnished.key}"}
