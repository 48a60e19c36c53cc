"""Bodies that are JSON, or nearly, and still good for nothing: each is refused or taken, none breaks the server."""

import json
from typing import Any

import httpx
import pytest

from rft.testing.endpoint import ScriptedEndpoint, ScriptedTools
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.running_api import Api

EXACT = {"type": "string_check", "name": "e", "input": "{{sample.output_text}}", "reference": "7", "operation": "eq"}
HOSTILE = {
    "not a number": "NaN",
    "infinite": "-Infinity",
    "beyond floats": "1e999",
    "a whole number beyond floats": "1" + "0" * 400,
    "a whole number of 5000 digits": "9" * 5000,
    "NUL": '"\\u0000"',
    "half a surrogate pair": '"\\ud800"',
    "a name that is half a surrogate pair": '{"\\udfff": 1}',
    "95 lists deep": "[" * 95 + "]" * 95,
    "200 lists deep": "[" * 200 + "]" * 200,
    "400 lists deep": "[" * 400 + "]" * 400,
    "600 lists deep": "[" * 600 + "]" * 600,
    "600 objects deep": '{"a":' * 600 + "1" + "}" * 600,
    "100000 lists deep": "[" * 100_000 + "]" * 100_000,
    "a name twice": '{"a": 1, "a": 2}',
}
PLACES: dict[str, tuple[str, str]] = {
    "an unknown field of a job": ("/fine_tuning/jobs", "extra"),
    "an unknown field of a grader": ("/fine_tuning/alpha/graders/validate", "grader.extra"),
    "a grader's threshold": ("/fine_tuning/alpha/graders/validate", "grader.pass_threshold"),
    "a row": ("/fine_tuning/alpha/graders/run", "item.extra"),
    "a tool's row": ("/fine_tuning/alpha/tool/run", "item.extra"),
    "a tool's seconds": ("/tools", "timeout_s"),
    "a tool's parameters": ("/tools", "parameters.properties"),
    "a tool's unknown field": ("/tools", "extra"),
    "a change of a tool": ("/tools", "extra"),
    "a registered grader": ("/graders", "grader.extra"),
    "a rehearsal": ("/rehearsals", "extra"),
    "permissions": ("/fine_tuning/checkpoints/none/permissions", "project_ids"),
    "a job's seed": ("/fine_tuning/jobs", "seed"),
    "a multiplier": ("/fine_tuning/jobs", "method.reinforcement.hyperparameters.learning_rate_multiplier"),
    "a budget": ("/fine_tuning/jobs", "method.reinforcement.budgets.max_tokens"),
    "metadata": ("/fine_tuning/jobs", "metadata"),
}


def good_bodies(order: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """One for each address."""
    tool = order["method"]["reinforcement"]["tools"][0]
    return {
        "/fine_tuning/jobs": order,
        "/rehearsals": order,
        "/fine_tuning/alpha/graders/validate": {"grader": EXACT},
        "/fine_tuning/alpha/graders/run": {"grader": EXACT, "model_sample": "7"},
        "/fine_tuning/alpha/tool/run": tool,
        "/tools": {**tool, "parameters": {"type": "object"}},
        "/graders": {"grader": EXACT},
        "/evals": {"data_source_config": {"type": "custom", "item_schema": {}}, "testing_criteria": [EXACT]},
        "/fine_tuning/checkpoints/none/permissions": {"project_ids": ["proj_a"]},
    }


def with_field(document: Any, path: str, value: str) -> str:
    """The document as JSON with this text in one place."""
    marker = "HERE-IT-COMES"
    changed: Any = json.loads(json.dumps(document))
    here = changed
    *parents, last = path.split(".")
    for parent in parents:
        here = here.setdefault(parent, {})
    here[last] = marker
    return json.dumps(changed).replace(f'"{marker}"', value)


@pytest.mark.parametrize("place", PLACES)
async def test_nothing_breaks_the_server(api: Api, order: dict[str, Any], place: str) -> None:
    path, field = PLACES[place]
    body = good_bodies(order)[path]
    headers = {"authorization": f"Bearer {api.key}", "content-type": "application/json"}
    async with httpx.AsyncClient(base_url=f"{api.url}/v1", headers=headers, timeout=60) as client:
        if place == "a change of a tool":
            path = f"/tools/{(await client.post('/tools', json=body)).json()['id']}"
        told = {
            name: await client.post(path, content=with_field(body, field, value)) for name, value in HOSTILE.items()
        }
        told["a strange name"] = await client.post(path, content=json.dumps({**body, "\ud800": 1}))
        statuses = {name: reply.status_code for name, reply in told.items()}
        assert set(statuses.values()) <= {200, 400, 404}, statuses
        for reply in told.values():
            assert reply.status_code == 200 or set(reply.json()["error"]) == {"message", "type", "param", "code"}
        for listed in ("/fine_tuning/jobs", "/tools", "/graders", "/rehearsals"):
            assert (await client.get(listed)).status_code == 200, "whatever was taken can be shown"


@pytest.mark.parametrize("place", PLACES)
async def test_what_json_has_no_number_for_is_refused_where_it_lies(
    api: Api, order: dict[str, Any], place: str
) -> None:
    path, field = PLACES[place]
    body = good_bodies(order)[path]
    headers = {"authorization": f"Bearer {api.key}", "content-type": "application/json"}
    async with httpx.AsyncClient(base_url=f"{api.url}/v1", headers=headers, timeout=60) as client:
        if place == "a change of a tool":
            path = f"/tools/{(await client.post('/tools', json=body)).json()['id']}"
        for number in ("NaN", "Infinity", "-Infinity", "1e999"):
            for value, suffix in ((number, ""), (f'{{"deep": [1, {number}]}}', ".deep[1]")):
                reply = await client.post(path, content=with_field(body, field, value))
                assert (reply.status_code, reply.json()["error"]["param"]) == (400, f"{field}{suffix}"), value


GRADER = "method.reinforcement.grader"
ENDLESS: dict[str, tuple[str, str, Any, str | None]] = {
    "fields of a job": ("/fine_tuning/jobs", "extra", [0] * 100_000, None),
    "fields of a rehearsal": ("/rehearsals", "extra", {f"k{at}": at for at in range(50_000)}, None),
    "fields of a tool": ("/tools", "extra", [0] * 100_000, None),
    "fields of a registered grader": ("/graders", "grader.extra", [[]] * 100_000, "grader"),
    "an eval's schema": ("/evals", "data_source_config.item_schema.extra", [[]] * 100_000, None),
    "fields of a grader that is tried": ("/fine_tuning/alpha/graders/run", "grader.extra", [[]] * 100_000, "grader"),
    "a row": ("/fine_tuning/alpha/graders/run", "item.extra", [0] * 1_000_000, None),
    "variables": ("/fine_tuning/alpha/graders/run", "grader.input", "{{item.a}}" * 60_000, "grader"),
    "variables of a job": ("/fine_tuning/jobs", "method.reinforcement.grader.input", "{{item.a}}" * 60_000, GRADER),
}
"""Where it is sent, in which field, and the field that is named."""


@pytest.mark.parametrize("what", ENDLESS)
async def test_what_would_keep_the_event_loop_for_seconds_is_refused(
    api: Api, order: dict[str, Any], what: str
) -> None:
    path, field, value, param = ENDLESS[what]
    order["method"]["reinforcement"]["grader"] = EXACT
    body = good_bodies(order)[path]
    headers = {"authorization": f"Bearer {api.key}", "content-type": "application/json"}
    async with httpx.AsyncClient(base_url=f"{api.url}/v1", headers=headers, timeout=60) as client:
        reply = await client.post(path, content=with_field(body, field, json.dumps(value)))
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert "names and values" in error["message"] or "is too long" in error["message"]
    assert param is None or error["param"] == param


async def test_of_many_unknown_fields_an_event_names_the_first(api: Api, order: dict[str, Any]) -> None:
    strange = {f"strange_{number:05}": 1 for number in range(10_000)}
    headers = {"authorization": f"Bearer {api.key}"}
    async with httpx.AsyncClient(base_url=f"{api.url}/v1", headers=headers, timeout=60) as client:
        job = (await client.post("/fine_tuning/jobs", json=order | strange)).json()
        events = (await client.get(f"/fine_tuning/jobs/{job['id']}/events", params={"code": "unknown_fields"})).json()
    (event,) = events["data"]
    fields = event["data"]["fields"]
    own = [field for field in fields if field.startswith("method.")]
    assert fields == [*own, *(f"strange_{number:05}" for number in range(50 - len(own)))]
    assert event["message"].endswith(f"{fields[-1]} and {9_950 + len(own):,} more")


async def test_an_answer_that_utf_8_cannot_hold_is_told_with_a_replacement(api: Api) -> None:
    tools = ScriptedTools({"odd": lambda _arguments, _item: "half \ud800 and \x00"})
    headers = {"authorization": f"Bearer {api.key}"}
    async with (
        LoopbackEndpoint(ScriptedEndpoint(tools)) as customer,
        httpx.AsyncClient(base_url=f"{api.url}/v1", headers=headers, timeout=60) as client,
    ):
        odd = {"name": "odd", "server_url": customer.tool_url}
        run = await client.post("/fine_tuning/alpha/tool/run", json=odd)
        tool = (await client.post("/tools", json=odd)).json()
        tried = await client.post(f"/tools/{tool['id']}/test", json={})
    for reply in (run, tried):
        assert (reply.status_code, reply.json()["output"]) == (200, "half \ufffd and \ufffd")
