"""The OpenAPI document against the API: requests made up from it get no server error and nothing it does not announce.

Left out: the live stream, which does not end.
"""

import zlib
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import psycopg
import pytest
import requests
import schemathesis
from psycopg import sql
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rft.platform.api.app import create_app
from rft.platform.embedded.postgres import EmbeddedPostgres
from rft.platform.settings import Settings
from tests.integration.api.furnished_api import FurnishedApi, furnished_api
from tests.integration.api.running_api import EXACT

DATABASE = "openapi_conformance"
Case: TypeAlias = schemathesis.Case[Any]
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
CONFIG = schemathesis.Config.from_dict(
    {
        "seed": 1,
        "generation": {
            "deterministic": True,
            "max-examples": 8,
            "database": "none",
            "with-security-parameters": False,
        },
        "phases": {"coverage": {"enabled": False}, "examples": {"enabled": False}},
    }
)
DOCUMENT = create_app(
    Settings.model_validate({"home": "/nowhere", "DATABASE_URL": "postgresql:///nowhere"}), has_reconciler=False
).openapi()
schema = schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG).exclude(path_regex="/stream$")


@pytest.fixture(scope="module")
def furnished(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FurnishedApi]:
    """One API for all made-up requests."""
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        name = sql.Identifier(DATABASE)
        connection.execute(sql.SQL("create database {} template template0").format(name))
        with furnished_api(postgres.url(DATABASE), tmp_path_factory.mktemp("furnished")) as api:
            yield api
        connection.execute(sql.SQL("drop database {} with (force)").format(name))


@pytest.fixture(scope="module")
def session(furnished: FurnishedApi) -> Iterator[requests.Session]:
    """A caller with a key."""
    with requests.Session() as session:
        session.headers["authorization"] = f"Bearer {furnished.key}"
        yield session


@schema.parametrize()  # pyright: ignore[reportUntypedFunctionDecorator]
def test_nothing_unannounced_comes_back(case: Case, furnished: FurnishedApi, session: requests.Session) -> None:
    acquaint(case, furnished)
    case.call_and_validate(base_url=furnished.url, session=session, checks=CHECKS)


def test_good_requests_get_what_is_announced(furnished: FurnishedApi, session: requests.Session) -> None:
    endpoint = {"type": "endpoint", "name": "remote", "url": furnished.grader_url, "headers": {"X-Key": "hush-hush"}}
    multi = {"type": "multi", "graders": {"a": EXACT, "b": endpoint}, "calculate_output": "(a + b) / 2"}
    tools = [{"name": name, "server_url": furnished.tool_url} for name in ("search", "cat")]
    method = {"type": "reinforcement", "reinforcement": {"grader": multi, "tools": tools, "max_episode_steps": 5}}
    order: dict[str, Any] = {"model": "tiny", "training_file": furnished.known["file_id"][0], "method": method}
    code = {"type": "python", "source": "def grade(sample, item):\n    return 1.0\n"}
    trained = {"fine_tuning_job_id": furnished.known["fine_tuning_job_id"][0]}
    tool_id, grader_id = furnished.known["tool_id"][0], furnished.known["grader_id"][0]
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
        ("/v1/fine_tuning/jobs/{fine_tuning_job_id}/regrade", trained, {"grader": EXACT, "steps": [1, 2]}),
    ]
    for path, ids, body in good:
        case = schema[path]["POST"].Case(path_parameters=ids, body=body)
        reply = case.call_and_validate(base_url=furnished.url, session=session, checks=CHECKS)
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
        assert name == "GET /health" or operation["security"], name


def acquaint(case: Case, furnished: FurnishedApi) -> None:
    """Put things that exist in place of most made-up names, so that requests get further than "no such object"."""
    pool = furnished.spare if case.method == "DELETE" else furnished.known
    for name, value in case.path_parameters.items():
        case.path_parameters[name] = one_of(pool.get(name, ()), value)
    case.body = _acquainted(case.body, furnished)


def one_of(known: tuple[str, ...], value: Any) -> Any:
    """One of them, or for every fourth value the value itself; the same one for the same value."""
    number = zlib.crc32(repr(value).encode())
    return value if not known or number % 4 == 0 else known[number // 4 % len(known)]


def _acquainted(body: Any, furnished: FurnishedApi) -> Any:
    match body:
        case dict():
            return {name: _field(name, value, furnished) for name, value in cast("dict[str, Any]", body).items()}
        case list():
            return [_acquainted(entry, furnished) for entry in cast("list[Any]", body)]
        case _:
            return body


def _field(name: str, value: Any, furnished: FurnishedApi) -> Any:
    if not isinstance(value, str):
        return _acquainted(value, furnished)
    match name:
        case "url":
            return one_of((furnished.grader_url,), value)
        case "server_url" | "callback_url":
            return one_of((furnished.tool_url,), value)
        case "model":
            return one_of(("tiny",), value)
        case "training_file" | "validation_file":
            return one_of(furnished.known["file_id"], value)
        case _:
            return value
