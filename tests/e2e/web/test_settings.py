"""Settings in a browser: keys are told once and revoked, providers come and go, secrets are rotated."""

import json
import re
from typing import Any

import httpx
from playwright.async_api import Page, Route, expect

from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems, sign_in


async def test_a_key_is_made_told_once_and_revoked(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key, "/settings")
    keys = page.get_by_role("region", name="API keys")
    await expect(keys.get_by_role("button", name="Revoke")).to_be_disabled()
    await keys.get_by_label("Name of a new key").fill("nightly evals")
    await keys.get_by_role("button", name="Create a key").click()
    told = keys.get_by_role("status").get_by_role("button", name="Copy it")
    key = (await told.inner_text()).strip()
    async with httpx.AsyncClient(
        base_url=platform.url, headers={"authorization": f"Bearer {key}"}, timeout=60.0
    ) as program:
        await expect(keys.get_by_role("row", name="nightly evals")).to_contain_text("never")
        assert (await program.get("/v1/models")).status_code == 200
        await keys.get_by_role("button", name="I have it").click()
        await expect(page.get_by_text(key)).to_have_count(0)
        await page.reload()
        await expect(keys.get_by_role("row", name="nightly evals")).not_to_contain_text("never")
        await keys.get_by_role("row", name="nightly evals").get_by_role("button", name="Revoke").click()
        await page.get_by_role("button", name="Yes, revoke").click()
        await expect(keys.get_by_role("row", name="nightly evals")).to_contain_text("revoked")
        assert (await program.get("/v1/models")).status_code == 401


async def test_a_new_key_stays_in_sight_until_its_reader_has_it(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("ERR_FAILED")
    await sign_in(page, platform.url, platform.key, "/settings")
    keys = page.get_by_role("region", name="API keys")
    await keys.get_by_label("Name of a new key").fill("staying")
    await keys.get_by_role("button", name="Create a key").click()
    told = keys.get_by_role("status").get_by_role("button", name="Copy it")
    await expect(told).to_be_visible()
    await page.route("**/v1/dashboard/keys/*", lambda route: route.abort())
    await keys.get_by_role("row", name="staying").get_by_role("button", name="Revoke").click()
    await page.get_by_role("button", name="Yes, revoke").click()
    await keys.get_by_role("alert").get_by_role("button", name="Close").click()
    await expect(keys.get_by_role("alert")).to_be_hidden()
    await expect(told).to_be_visible()
    await keys.get_by_label("Name of a new key").fill("next")
    await expect(keys.get_by_role("button", name="Create a key")).to_be_disabled()
    await keys.get_by_role("button", name="I have it").click()
    await expect(keys.get_by_role("button", name="Create a key")).to_be_enabled()


async def test_who_revokes_the_browsers_own_key_is_signed_out(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("401")
    await sign_in(page, platform.url, platform.key, "/settings")
    await page.get_by_label("Name of a new key").fill("another")
    await page.get_by_role("button", name="Create a key").click()
    await page.get_by_role("row", name="this browser's").get_by_role("button", name="Revoke").click()
    await expect(page.get_by_role("alertdialog")).to_contain_text("This browser is one of them.")
    await page.get_by_role("button", name="Yes, revoke").click()
    await expect(page.get_by_text("Your session has ended. Sign in again.")).to_be_visible()


async def test_a_provider_is_added_and_a_dead_one_refused(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("400")
    await sign_in(page, platform.url, platform.key, "/settings")
    await page.get_by_role("button", name="Add a provider").click()
    form = page.get_by_role("form", name="New provider")
    for label, value in (("Name", "lab"), ("Address", "http://127.0.0.1:9/v1"), ("Key", "sk-hush")):
        await form.get_by_label(label, exact=True).fill(value)
    await form.get_by_role("button", name="Add").click()
    await expect(form.get_by_role("alert")).to_contain_text("base_url")
    await form.get_by_role("checkbox").uncheck()
    await form.get_by_role("button", name="Add").click()
    providers = page.get_by_role("region", name="Providers")
    await expect(providers.get_by_role("row", name="lab")).to_be_visible()
    await expect(page.get_by_text("sk-hush")).to_have_count(0)
    await providers.get_by_role("button", name="Remove lab").click()
    await page.get_by_role("button", name="Yes, remove").click()
    await expect(providers.get_by_text("No providers")).to_be_visible()


async def test_a_signing_secret_takes_the_others_place(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key, "/settings")
    secrets = page.get_by_role("region", name="Signing secrets")
    await expect(secrets.get_by_role("button", name="Retire")).to_be_disabled()
    await secrets.get_by_role("button", name="Make a new one").click()
    await expect(secrets.get_by_role("status")).to_contain_text("whsec_")
    await secrets.get_by_role("button", name="Retire").last.click()
    await page.get_by_role("button", name="Yes, retire").click()
    await expect(secrets.get_by_text("retired")).to_be_visible()


JUDGE = {"type": "score_model", "name": "answer_credit", "model": "judge-small", "input": []}
SERVER = {"base_url": "https://judge.example/v1", "api_key": "*****", "timeout_s": 120.0, "max_concurrency": 64}


async def judged_job(platform: Platform) -> str:
    """The id of a job whose grader asks a judge."""
    job = await platform.new_job(suffix="judged", failing_share=0.2)
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    async with platform.database.transaction() as connection:
        query = "update jobs set method = jsonb_set(method, '{reinforcement,grader}', %s::jsonb) where id = %s"
        await connection.execute(query, (json.dumps(JUDGE), job.id))
    return job.id


async def with_judge_server(page: Page) -> None:
    """The platform's answer, as if it had a judge configured."""

    async def answer(route: Route) -> None:
        reply = await route.fetch()
        await route.fulfill(response=reply, json=(await reply.json()) | {"server": SERVER})

    await page.route("**/v1/dashboard/judges", answer)


BASES: list[dict[str, Any]] = [
    {"id": name, "object": "model", "created": 0, "owned_by": "system", "path": f"/models/{name}"}
    for name in ("lab/large", "lab/old")
]
FITS: dict[str, Any] = {
    "problem": None, "chat_format": "qwen3", "template_fingerprint": "0123456789abcdef", "stop_tokens": ["<|im_end|>"],
    "takes_parallel_calls": True, "thinking_switch": "enable_thinking", "engines": ["transformers", "vllm"],
    "engine_problem": None, "memory": None,
    "auto": {
        "engine": "transformers", "max_context_tokens": 32768, "micro_batch_tokens": 2048, "conversations_at_once": 8,
        "lora_rank": 16, "lora_layers": ["q_proj"], "lr_scheduler_type": "constant", "warmup_steps": 0,
        "temperature": 1.0, "beta": 0.0,
    },
}  # fmt: skip
UNFIT = FITS | {"problem": "its chat template has no place for tools", "chat_format": None, "engines": [], "auto": None}


async def with_base_models(page: Page, found: dict[str, dict[str, Any]]) -> None:
    """Models that a look found so; `found` may change between two looks."""

    async def one(route: Route) -> None:
        base = next(base for base in BASES if route.request.url.endswith(base["id"].replace("/", "%2F")))
        await route.fulfill(json=base | {"base_model": found[base["id"]]})

    await page.route("**/v1/models", lambda route: route.fulfill(json={"object": "list", "data": BASES}))
    await page.route("**/v1/models/*", one)


async def test_judges_are_told_with_what_names_them_and_how_they_fare(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key, "/settings")
    judges = page.get_by_role("region", name="Judges").first
    await expect(judges.get_by_text("No judge is configured")).to_be_visible()
    await expect(judges.get_by_role("table")).to_have_count(0)

    job = await judged_job(platform)
    await with_judge_server(page)
    await page.reload()
    await expect(judges.get_by_text("https://judge.example/v1")).to_be_visible()
    await expect(judges.get_by_text("called with a key")).to_be_visible()
    row = judges.get_by_role("row", name="judge-small")
    await expect(row).to_contain_text("running job, grader answer_credit")
    await expect(row.get_by_role("cell").nth(2)).to_have_text(re.compile(r"^[1-9]\d*$"))
    await row.get_by_role("link", name="judged").click()
    await expect(page).to_have_url(f"{platform.url}/jobs/{job}")


async def test_base_models_are_told_with_what_their_check_says_and_checked_again(
    platform: Platform, page: Page
) -> None:
    found = {"lab/large": FITS, "lab/old": UNFIT}
    await with_base_models(page, found)
    await sign_in(page, platform.url, platform.key, "/settings")
    models = page.get_by_role("region", name="Base models")
    large, old = models.get_by_role("listitem").nth(0), models.get_by_role("listitem").nth(1)
    await expect(large).to_contain_text("A job can start from it.")
    await expect(large).to_contain_text("32768 tokens")
    await expect(large).to_contain_text("transformers, vllm")
    await expect(old).to_contain_text("its chat template has no place for tools")
    found["lab/old"] = FITS
    await old.get_by_role("button", name="Check again").click()
    await expect(old).to_contain_text("A job can start from it.")
