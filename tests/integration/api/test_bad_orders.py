"""Orders that must be refused, each with the class, code and parameter that says why."""

import json
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from typing import Any

import pytest
import pytest_asyncio
from openai import AsyncOpenAI, BadRequestError

from rft.testing.loopback import LoopbackEndpoint
from tests.integration.api.conftest import client_of, order_of, served_api
from tests.shared.emptied_database import EmptiedDatabase
from tests.shared.running_api import Api, collect, upload

Path = tuple[str | int, ...]
_R: Path = ("method", "reinforcement")
_T: Path = (*_R, "tools", 0)
_G: Path = (*_R, "grader")
_H: Path = (*_R, "hyperparameters")


def put(path: Path, value: object) -> Callable[[dict[str, Any]], None]:
    """Set one field of the order, wherever it lies."""

    def change(order: dict[str, Any]) -> None:
        here: Any = order
        for part in path[:-1]:
            here = here[part]
        here[path[-1]] = value

    return change


def drop(path: Path) -> Callable[[dict[str, Any]], None]:
    """Leave one field out."""

    def change(order: dict[str, Any]) -> None:
        here: Any = order
        for part in path[:-1]:
            here = here[part]
        del here[path[-1]]

    return change


def dotted(path: Path) -> str:
    """As `param` shows it."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _cispo_that_shrinks(order: dict[str, Any]) -> None:
    """A largest weight below 1 would make all weights smaller."""
    put((*_R, "loss_type"), "cispo")(order)
    put((*_H, "epsilon_high"), 0.9)(order)


def _cispo_that_shrinks_in_the_old_place(order: dict[str, Any]) -> None:
    """What counts is what the two places come to together."""
    put((*_R, "loss_type"), "cispo")(order)
    put(("hyperparameters",), {"epsilon_high": 0.9})(order)


MISSING = "missing_required_parameter"
INVALID = "invalid_value"
NONSENSE = {"type": "json_schema", "name": "n", "schema": {"type": "nonsense"}}
CASES: list[tuple[Callable[[dict[str, Any]], None], Path, str, str]] = [
    (drop(("model",)), ("model",), MISSING, "model"),
    (put(("model",), "gpt-5"), ("model",), "model_not_found", "lab/tiny, lost, starter, tiny"),
    (put(("model",), "lost"), ("model",), "model_not_found", "directory is missing"),
    (put(("model",), 7), ("model",), INVALID, "name of a base model"),
    (drop(("training_file",)), ("training_file",), MISSING, "training_file"),
    (put(("training_file",), "file-none"), ("training_file",), "file_not_found", "file-none"),
    (put(("validation_file",), "file-none"), ("validation_file",), "file_not_found", "file-none"),
    (put(("test_file",), "file-none"), ("test_file",), "file_not_found", "file-none"),
    (put(("training_file",), None), ("training_file",), INVALID, "id of an uploaded file"),
    (drop(("method",)), ("method",), MISSING, "method"),
    (put(("method",), {"type": "supervised"}), ("method", "type"), INVALID, "reinforcement"),
    (drop(("method", "reinforcement")), _R, MISSING, "reinforcement"),
    (drop(_G), _G, MISSING, "grader"),
    (put(_G, None), _G, INVALID, ""),
    (drop((*_G, "type")), (*_G, "type"), MISSING, "type"),
    (put((*_G, "type"), "python"), (*_G, "source"), MISSING, "source"),
    (put((*_G, "type"), "oracle"), (*_G, "type"), INVALID, "must be one of"),
    (put((*_G, "type"), ["endpoint"]), (*_G, "type"), INVALID, "endpoint"),
    (drop((*_G, "url")), (*_G, "url"), MISSING, "url"),
    (put((*_G, "url"), "ftp://host/grade"), (*_G, "url"), INVALID, "http"),
    (put((*_G, "rate_limit"), 0), (*_G, "rate_limit"), INVALID, "above 0"),
    (put((*_G, "pass_threshold"), "high"), (*_G, "pass_threshold"), INVALID, "number"),
    (put((*_G, "headers"), {"A": "b\r\nX-Injected: 1"}), (*_G, "headers"), INVALID, "'A'"),
    (drop((*_T, "server_url")), (*_T, "server_url"), MISSING, "server_url"),
    (drop((*_T, "name")), (*_T, "name"), MISSING, "name"),
    (put((*_T, "name"), "cat"), (*_R, "tools", 1, "name"), INVALID, "'cat' appears twice"),
    (put((*_T, "name"), "two words"), (*_T, "name"), INVALID, "letters"),
    (put((*_T, "server_url"), "localhost:8080"), (*_T, "server_url"), INVALID, "http"),
    (put((*_T, "server_url"), "http://me:pw@127.0.0.1/"), (*_T, "server_url"), INVALID, "headers"),
    (put((*_T, "server_url"), "http://"), (*_T, "server_url"), INVALID, "host"),
    (put((*_T, "server_url"), "http://a b/"), (*_T, "server_url"), INVALID, "spaces"),
    (put((*_T, "server_url"), "http://host:99999/"), (*_T, "server_url"), INVALID, "URL"),
    (put((*_T, "server_url"), "http://h/" + "x" * 3000), (*_T, "server_url"), INVALID, "2048"),
    (put((*_T, "url"), "http://127.0.0.1:1/other"), (*_T, "url"), INVALID, "two different"),
    (put((*_T, "headers"), {"Content-Length": "5"}), (*_T, "headers"), INVALID, "set by the platform"),
    (put((*_T, "headers"), {"bad name": "x"}), (*_T, "headers"), INVALID, "header name"),
    (put((*_T, "headers"), {"a": "1", "A": "2"}), (*_T, "headers"), INVALID, "twice"),
    (put((*_T, "headers"), {"a": 1}), (*_T, "headers"), INVALID, "text values"),
    (put((*_T, "timeout_s"), -1), (*_T, "timeout_s"), INVALID, "seconds"),
    (put((*_T, "max_output_chars"), 0), (*_T, "max_output_chars"), INVALID, "1"),
    (put((*_R, "tools"), {"name": "search"}), (*_R, "tools"), INVALID, "list"),
    (put((*_R, "tools", 1), "search"), (*_R, "tools", 1), INVALID, ""),
    (put((*_R, "max_episode_steps"), 0), (*_R, "max_episode_steps"), INVALID, "1 to 10000"),
    (put((*_R, "max_episode_steps"), "ten"), (*_R, "max_episode_steps"), INVALID, "1 to 10000"),
    (put((*_R, "response_format"), {"type": "xml"}), (*_R, "response_format"), INVALID, "json_schema"),
    (put((*_R, "response_format"), {"type": "json_schema"}), (*_R, "response_format"), INVALID, "schema"),
    (put((*_R, "response_format"), NONSENSE), (*_R, "response_format", "schema"), INVALID, "not a JSON Schema"),
    (
        put((*_R, "response_format"), {"type": "json_schema", "json_schema": NONSENSE}),
        (*_R, "response_format", "json_schema", "schema"),
        INVALID,
        "not a JSON Schema",
    ),
    (put((*_R, "loss_type"), "magic"), (*_R, "loss_type"), INVALID, "dapo"),
    (put((*_R, "lora"), {"rank": 0}), (*_R, "lora", "rank"), INVALID, "1 to 512"),
    (put((*_R, "early_stop"), {"target_reward": "much"}), (*_R, "early_stop", "target_reward"), INVALID, "number"),
    (put((*_R, "max_importance_gap"), 0), (*_R, "max_importance_gap"), INVALID, "above 0"),
    (put((*_R, "budgets"), {"max_tokens": 0}), (*_R, "budgets", "max_tokens"), INVALID, "from 1"),
    (put((*_R, "lora"), {"alpha": 2**53}), (*_R, "lora", "alpha"), INVALID, "from 1 to 9007199254740991"),
    (put((*_H, "n_epochs"), 0), (*_H, "n_epochs"), INVALID, "1 to 50"),
    (put((*_H, "n_epochs"), 2.5), (*_H, "n_epochs"), INVALID, "1 to 50"),
    (put((*_H, "n_epochs"), True), (*_H, "n_epochs"), INVALID, "1 to 50"),
    (put((*_H, "batch_size"), 257), (*_H, "batch_size"), INVALID, "1 to 256"),
    (put((*_H, "learning_rate_multiplier"), 0), (*_H, "learning_rate_multiplier"), INVALID, "above 0"),
    (put((*_H, "compute_multiplier"), 1e-5), (*_H, "compute_multiplier"), INVALID, "0.00001"),
    (put((*_H, "compute_multiplier"), 10.5), (*_H, "compute_multiplier"), INVALID, "10 at most"),
    (put((*_H, "eval_interval"), "often"), (*_H, "eval_interval"), INVALID, "auto"),
    (put((*_H, "eval_samples"), 0), (*_H, "eval_samples"), INVALID, "from 1"),
    (put((*_H, "eval_samples"), 1_001), (*_H, "eval_samples"), INVALID, "from 1 to 1000"),
    (put((*_H, "warmup_steps"), 10**400), (*_H, "warmup_steps"), INVALID, "from 0 to 9007199254740991"),
    (put((*_H, "temperature"), 0), (*_H, "temperature"), INVALID, "a number from 0.01 to 2"),
    (put((*_H, "temperature"), 2.1), (*_H, "temperature"), INVALID, "a number from 0.01 to 2"),
    (put((*_H, "beta"), -0.1), (*_H, "beta"), INVALID, "from 0"),
    (put((*_H, "epsilon"), 0), (*_H, "epsilon"), INVALID, "above 0"),
    (put((*_H, "warmup_steps"), -1), (*_H, "warmup_steps"), INVALID, "from 0"),
    (put((*_H, "lr_scheduler_type"), "sometimes"), (*_H, "lr_scheduler_type"), INVALID, "cosine"),
    (put((*_H, "resample_zero_variance"), 9), (*_H, "resample_zero_variance"), INVALID, "0 to 8"),
    (put((*_H, "policy_pin"), "token"), (*_H, "policy_pin"), INVALID, "turn"),
    (put((*_H, "max_staleness"), 9), (*_H, "max_staleness"), INVALID, "0 to 8"),
    (put((*_H, "max_staleness"), True), (*_H, "max_staleness"), INVALID, "0 to 8"),
    (_cispo_that_shrinks, (*_H, "epsilon_high"), INVALID, "1 or more"),
    (_cispo_that_shrinks_in_the_old_place, ("hyperparameters", "epsilon_high"), INVALID, "1 or more"),
    (put((*_R, "lora"), {"target_modules": []}), (*_R, "lora", "target_modules"), INVALID, "1 to 64 names"),
    (put((*_R, "budgets"), {"max_context_tokens": 99}), (*_R, "budgets", "max_context_tokens"), INVALID, "from 256"),
    (put((*_H, "reasoning_effort"), "extreme"), (*_H, "reasoning_effort"), INVALID, "low"),
    (put(("suffix",), "x" * 65), ("suffix",), INVALID, "64 characters at most"),
    (put(("seed",), -1), ("seed",), INVALID, "0"),
    (put(("seed",), 2**63), ("seed",), INVALID, "0"),
    (put(("metadata",), {"n": 1}), ("metadata",), INVALID, "text"),
    (put(("metadata",), {"k" * 65: "v"}), ("metadata",), INVALID, "64"),
    (put(("metadata",), {str(n): "v" for n in range(17)}), ("metadata",), INVALID, "16"),
    (put(("integrations",), {"type": "wandb"}), ("integrations",), INVALID, "must be a list"),
    (put(("hyperparameters",), {"n_epochs": 51}), ("hyperparameters", "n_epochs"), INVALID, "1 to 50"),
    (put(("hyperparameters",), "auto"), ("hyperparameters",), INVALID, ""),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def refusing(
    emptied_database: EmptiedDatabase, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Api, dict[str, Any]]]:
    """One API for all orders that are refused, and an order that would not be."""
    folder = tmp_path_factory.mktemp("refusing")
    (folder / "tiny").mkdir()
    with emptied_database.lend() as database_url:
        async with served_api(database_url, folder, folder / "tiny") as api, client_of(api) as client:
            yield api, order_of((await upload(client)).id, "http://127.0.0.1:9/tool", "http://127.0.0.1:9/grade")


@pytest.mark.parametrize(
    ("change", "param", "code", "message"), CASES, ids=[f"{dotted(case[1])}-{n}" for n, case in enumerate(CASES)]
)
async def test_a_bad_order_is_refused_with_its_parameter(
    refusing: tuple[Api, dict[str, Any]],
    change: Callable[[dict[str, Any]], None],
    param: Path,
    code: str,
    message: str,
) -> None:
    api, order = refusing[0], deepcopy(refusing[1])
    change(order)
    async with client_of(api) as client:
        with pytest.raises(BadRequestError) as raised:
            await client.post("/fine_tuning/jobs", body=order, cast_to=object)
        assert await collect(client.fine_tuning.jobs.list()) == []
    error = raised.value
    assert (error.param, error.code, error.type) == (dotted(param), code, "invalid_request_error")
    assert message in error.message
    assert "-secret" not in error.message
    assert "X-Injected" not in error.message


async def test_a_file_of_another_purpose(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    notes = await client.files.create(file=("notes.jsonl", b"{}\n"), purpose="user_data")
    order["training_file"] = notes.id
    with pytest.raises(BadRequestError, match="user_data") as raised:
        await client.fine_tuning.jobs.create(**order)
    assert (raised.value.param, raised.value.code) == ("training_file", "invalid_file_purpose")


@pytest.mark.parametrize(
    ("stage", "param"),
    [("tool", "method.reinforcement.tools[1].server_url"), ("grader", "method.reinforcement.grader.url")],
)
@pytest.mark.parametrize("url", ["http://10.1.2.3/", "http://8.8.8.8/", "https://[fd00::1]/x"])
async def test_an_address_that_may_not_be_called_is_refused(
    client: AsyncOpenAI, order: dict[str, Any], url: str, stage: str, param: str
) -> None:
    reinforcement = order["method"]["reinforcement"]
    if stage == "tool":
        reinforcement["tools"][1]["server_url"] = url
    else:
        reinforcement["grader"]["url"] = url
    with pytest.raises(BadRequestError) as raised:
        await client.fine_tuning.jobs.create(**order)
    assert (raised.value.param, raised.value.code) == (param, f"{stage}_unreachable")
    assert await collect(client.fine_tuning.jobs.list()) == []


async def test_any_answer_is_reachable_and_each_url_is_looked_at_once(
    client: AsyncOpenAI, order: dict[str, Any], customer: LoopbackEndpoint
) -> None:
    reinforcement = order["method"]["reinforcement"]
    reinforcement["tools"] = [
        {"name": f"tool_{n}", "description": "Looks.", "server_url": f"{customer.base_url}/nowhere"} for n in range(20)
    ]
    job = await client.fine_tuning.jobs.create(**order)
    assert job.status == "validating_files"
    assert sorted((call.path, call.method) for call in customer.endpoint.calls) == [
        ("/grade", "OPTIONS"),
        ("/nowhere", "OPTIONS"),
    ]


async def test_bodies_that_are_no_orders(client: AsyncOpenAI, api: Api) -> None:
    bodies = [b"{", b"[]", b'"job"', b"", b'{"model": NaN', b'{"model":"\\ud800"}', b'{"model":"\\u0000"}', b"\xff"]
    for body in bodies:
        with pytest.raises(BadRequestError) as raised:
            await client.post(
                "/fine_tuning/jobs",
                content=body,
                cast_to=object,
                options={"headers": {"content-type": "application/json"}},
            )
        assert raised.value.type == "invalid_request_error", body
    assert await collect(client.fine_tuning.jobs.list()) == []


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"])
@pytest.mark.parametrize("field", ["suffix", "metadata", "extra", "header"])
async def test_text_that_no_database_holds_is_refused(
    client: AsyncOpenAI, order: dict[str, Any], text: str, field: str
) -> None:
    broken = deepcopy(order)
    match field:
        case "metadata":
            broken["metadata"] = {"note": text}
        case "header":
            broken["method"]["reinforcement"]["tools"][0]["headers"] = {"x-note": text}
        case _:
            broken[field] = text
    with pytest.raises(BadRequestError) as raised:
        await client.post(
            "/fine_tuning/jobs",
            content=json.dumps(broken).encode(),
            cast_to=object,
            options={"headers": {"content-type": "application/json"}},
        )
    assert raised.value.code == "invalid_value"
