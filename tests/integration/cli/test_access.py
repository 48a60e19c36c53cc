"""`rft permissions ...`, `rft signing-secrets ...`, `rft dashboard` and `rft models get`."""

import httpx

from tests.integration.cli.conftest import Run, Shell
from tests.shared.train_events import whole_run


async def test_checkpoint_permissions_are_given_listed_and_taken_back(shell: Shell, run: Run) -> None:
    await run.tell(*whole_run(run.job_id, steps=1))
    checkpoint = (await shell.ok("jobs", "checkpoints", run.job_id, "--json")).json[0]["fine_tuned_model_checkpoint"]
    assert (await shell.ok("permissions", "list", checkpoint)).err == "no permissions\n"
    made = (await shell.ok("permissions", "create", checkpoint, "proj_a", "proj_b", "proj_c")).out
    assert all(project in made for project in ("proj_a", "proj_b", "proj_c"))
    listed = (await shell.ok("permissions", "list", checkpoint, "--json")).json
    assert [entry["project_id"] for entry in listed] == ["proj_c", "proj_b", "proj_a"]
    assert listed[0]["id"] in (await shell.ok("permissions", "list", checkpoint)).out
    first = await shell.ok("permissions", "list", checkpoint, "--limit", 1)
    assert f"--after {listed[0]['id']}" in first.err
    rest = (await shell.ok("permissions", "list", checkpoint, "--after", listed[0]["id"], "--json")).json
    assert rest == listed[1:]
    only = (await shell.ok("permissions", "list", checkpoint, "--project", "proj_b", "--json")).json
    assert [entry["project_id"] for entry in only] == ["proj_b"]
    again = (await shell.ok("permissions", "create", checkpoint, "proj_b", "--json")).json
    assert [entry["id"] for entry in again] == [only[0]["id"]]
    gone = await shell.ok("permissions", "delete", checkpoint, only[0]["id"])
    assert gone.out == f"{only[0]['id']} is deleted\n"
    raw = (await shell.ok("permissions", "delete", checkpoint, listed[0]["id"], "--json")).json
    assert raw["deleted"] is True
    left = (await shell.ok("permissions", "list", checkpoint, "--json")).json
    assert [entry["project_id"] for entry in left] == ["proj_a"]
    lost = await shell.rft("permissions", "delete", checkpoint, only[0]["id"])
    assert (lost.status, lost.err.count("\n")) == (1, 1)
    assert "permission_id" in lost.err


async def test_only_checkpoints_have_permissions(shell: Shell) -> None:
    for arguments in (("list", "tiny"), ("create", "tiny", "proj_a"), ("delete", "tiny", "cp_x")):
        refused = await shell.rft("permissions", *arguments)
        assert (refused.status, "base model" in refused.err) == (1, True), refused.err


async def test_signing_secrets_are_rotated_from_anywhere(shell: Shell) -> None:
    first = (await shell.ok("signing-secrets", "list", "--json")).json
    assert [secret["status"] for secret in first] == ["active"]
    alone = await shell.rft("signing-secrets", "retire", first[0]["id"])
    assert (alone.status, "rotate first" in alone.err) == (1, True)
    made_id, value = (await shell.ok("signing-secrets", "rotate")).out.split()
    assert value.startswith("whsec_")
    crowded = await shell.rft("signing-secrets", "rotate", "--json")
    assert (crowded.status, crowded.json["error"]["code"]) == (1, "invalid_state")
    listed = await shell.ok("signing-secrets", "list")
    assert made_id in listed.out
    assert value not in listed.out
    assert (await shell.ok("signing-secrets", "retire", first[0]["id"])).out == f"{first[0]['id']} is retired\n"
    states = {secret["id"]: secret["status"] for secret in (await shell.ok("signing-secrets", "list", "--json")).json}
    assert states == {first[0]["id"]: "retired", made_id: "active"}
    third = (await shell.ok("signing-secrets", "rotate", "--json")).json
    assert third["secret"].startswith("whsec_")
    raw = (await shell.ok("signing-secrets", "retire", made_id, "--json")).json
    assert raw["status"] == "retired"


async def test_one_model_is_shown(shell: Shell, run: Run) -> None:
    await run.tell(*whole_run(run.job_id, steps=1))
    model = (await shell.ok("jobs", "get", run.job_id, "--json")).json["fine_tuned_model"]
    shown = (await shell.ok("models", "get", model)).out
    assert run.job_id in shown
    assert (await shell.ok("models", "get", "tiny", "--json")).json["id"] == "tiny"
    assert (await shell.rft("models", "get", "nowhere")).status == 1


async def test_the_dashboards_link_is_one_line_and_signs_in_once(shell: Shell) -> None:
    root = shell.environment["RFT_BASE_URL"].removesuffix("/v1")
    link = (await shell.ok("dashboard")).out
    address, token = link.removesuffix("\n").split("#sign-in=")
    assert address == f"{root}/"
    async with httpx.AsyncClient(base_url=root, headers={"origin": root}, timeout=60.0) as browser:
        for status in (200, 401):
            reply = await browser.post("/dashboard/session", json={"credential": token})
            assert reply.status_code == status
    page = (await shell.ok("dashboard", "ftjob-a/b")).out
    assert page.startswith(f"{root}/jobs/ftjob-a%2Fb#sign-in=")
    raw = (await shell.ok("dashboard", "--json")).json
    assert raw["url"].startswith(f"{root}/#sign-in=")
    assert raw["object"] == "dashboard.sign_in_link"
    refused = await shell.rft("dashboard", "--api-key", "wrong")
    assert (refused.status, "API key" in refused.err) == (1, True)
