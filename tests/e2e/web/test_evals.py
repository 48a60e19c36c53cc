"""Evals in a browser: definitions, runs, items, what there is to learn from, and two runs compared."""

import json
import re
from pathlib import Path

import httpx
from playwright.async_api import Page, Route, expect

from tests.e2e.web.seeded_evals import ROWS, SeededEval
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems, sign_in


async def test_from_the_list_to_the_reply_of_a_grader(platform: Platform, page: Page) -> None:
    made = await SeededEval.make(platform.database)
    await made.run("first", skill=0.5)
    await sign_in(page, platform.url, platform.key, "/evals")
    listed = page.get_by_role("row", name="Arithmetic")
    await expect(listed).to_contain_text(re.compile(r"completed\d+ % \d+ % to \d+ %"))
    await page.get_by_role("link", name="Arithmetic").click()
    await expect(page.get_by_role("heading", name="What is measured")).to_be_visible()
    await page.get_by_role("link", name="first").click()
    errored = page.locator(".tile", has_text="Errored")
    await expect(errored).to_contain_text("server error 1")
    await page.get_by_role("button", name="Errored 1").click()
    await expect(page.locator(".output-items > li")).to_have_count(1)
    await page.locator(".output-items summary").click()
    await expect(page.get_by_text("No verdict: HTTP 500 of")).to_be_visible()
    await page.get_by_role("button", name=re.compile(r"^All \d+")).click()
    await expect(page.locator(".output-items > li")).to_have_count(4 * ROWS)
    await page.locator(".output-items summary").last.click()
    await expect(page.get_by_role("region", name="What helpful answered")).to_contain_text(f"row {ROWS - 1} read")
    await page.get_by_text("What helpful was sent", exact=True).click()
    sent = page.get_by_role("region", name="What helpful was sent")
    await expect(sent).to_have_text(f"[user]\nHow helpful is the answer to row {ROWS - 1}?")


async def test_the_variance_of_a_run_says_what_multiplier_its_items_speak_for(platform: Platform, page: Page) -> None:
    made = await SeededEval.make(platform.database)
    run = await made.run("repeated", skill=0.5)
    single = await made.run("single", skill=0.5, samples=1)
    await sign_in(page, platform.url, platform.key, f"/evals/{made.id}/runs/{run}")
    variance = page.get_by_role("region", name="Variance")
    await expect(variance.get_by_role("img")).to_be_visible()
    await expect(variance.locator(".facts")).to_contain_text("of 12 items")
    await expect(variance.get_by_role("table")).to_contain_text("≥")
    await variance.get_by_role("button", name="helpful").click()
    await expect(variance.get_by_role("button", name="helpful")).to_have_attribute("aria-pressed", "true")
    await page.goto(f"{platform.url}/evals/{made.id}/runs/{single}")
    await expect(page.get_by_role("heading", name="Items")).to_be_visible()
    await expect(variance).to_be_hidden()


async def test_two_runs_that_are_chosen_are_compared_item_by_item(platform: Platform, page: Page) -> None:
    made = await SeededEval.make(platform.database)
    await made.run("worse", skill=0.1)
    await made.run("better", skill=0.9)
    await sign_in(page, platform.url, platform.key, f"/evals/{made.id}")
    for name in ("worse", "better"):
        await page.get_by_label(f"Compare {name}").check()
    await page.get_by_role("link", name="Compare the two").click()
    await expect(page.get_by_role("region", name="Run A")).to_contain_text("better")
    await expect(page.get_by_text("A is better beyond chance.")).to_be_visible()
    await page.get_by_role("button", name=re.compile(r"^Better \d+")).click()
    first = page.locator(".output-items > li").first
    await expect(first.locator(".badge")).to_have_text("better")
    await expect(first.locator(".item-line")).to_have_text(re.compile(r"^\d+ \+ 3\?$"))
    await first.locator("summary").click()
    await expect(first.get_by_role("region", name="Answer of A")).to_have_count(4)
    await expect(first.get_by_role("region", name="Answer of B").first).to_be_visible()


async def one_more(route: Route) -> None:
    """The run as it is, with one more item in its counts."""
    reply = await route.fetch()
    run = await reply.json()
    run["result_counts"]["total"] += 1
    await route.fulfill(response=reply, json=run)


async def test_a_comparison_takes_in_what_a_run_that_goes_comes_to(platform: Platform, page: Page) -> None:
    made = await SeededEval.make(platform.database)
    a, b = await made.run("over", skill=0.1), await made.run("going", skill=0.9, is_going=True)
    await sign_in(page, platform.url, platform.key, f"/evals/{made.id}/compare?a={a}&b={b}")
    await expect(page.get_by_text("items compared")).to_be_visible()
    async with page.expect_response(lambda reply: f"/{a}/compare?" in reply.url):
        await page.route(f"**/runs/{b}", one_more)


async def test_a_run_that_goes_shows_what_is_finished_and_can_be_cancelled(platform: Platform, page: Page) -> None:
    made = await SeededEval.make(platform.database)
    run = await made.run("going", skill=0.5, is_going=True)
    await sign_in(page, platform.url, platform.key, f"/evals/{made.id}/runs/{run}")
    await expect(page.locator(".tile", has_text="Passed so far")).to_contain_text("95 %")
    await expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "50")
    async with page.expect_response(lambda reply: reply.url.endswith("/cancel")) as asked:
        await page.get_by_role("button", name="Cancel").click()
    assert (await asked.value).ok
    async with platform.database.connection() as connection:
        cursor = await connection.execute("select is_cancel_requested from eval_runs where id = %s", (run,))
        assert await cursor.fetchone() == (True,)
    # Its worker has not seen that yet.
    await expect(page.locator(".title-row .badge")).to_have_text("cancelling")
    await expect(page.get_by_role("button", name="Cancel")).to_be_disabled()


async def test_new_items_of_a_run_that_goes_wait_until_they_are_asked_for(platform: Platform, page: Page) -> None:
    made = await SeededEval.make(platform.database)
    run = await made.run("going", skill=0.9, is_going=True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/output_items" in request.url else None)
    await sign_in(page, platform.url, platform.key, f"/evals/{made.id}/runs/{run}")
    await expect(page.locator(".output-items > li")).to_have_count(2 * ROWS)
    before = len(asked)
    await page.route(f"**/runs/{run}", one_more)
    offer = page.get_by_role("button", name="1 new item: show")
    await expect(offer).to_be_visible()
    assert len(asked) == before
    async with page.expect_response(lambda reply: "/output_items" in reply.url):
        await offer.click()


async def test_verdicts_that_are_withdrawn_leave_the_page_as_they_are(platform: Platform, page: Page) -> None:
    made = await SeededEval.make(platform.database)
    run = await made.run("going", skill=0.9, is_going=True)
    await sign_in(page, platform.url, platform.key, f"/evals/{made.id}/runs/{run}")
    badges = page.locator(".output-items .badge")
    await expect(badges).to_have_count(2 * ROWS)
    await expect(badges.filter(has_text="passed").first).to_be_visible()
    await made.fail(run)
    await expect(page.locator(".title-row .badge")).to_have_text("failed")
    await expect(badges.filter(has_text="errored")).to_have_count(2 * ROWS)


async def test_what_has_no_verdict_is_tried_again(platform: Platform, page: Page) -> None:
    made = await SeededEval.make(platform.database)
    run = await made.run("first", skill=0.5, model="")  # Nothing is sampled: there is no model that could be gone.
    await sign_in(page, platform.url, platform.key, f"/evals/{made.id}/runs/{run}")
    await page.get_by_role("button", name="Try what has no verdict again").click()
    await expect(page.locator(".title-row .badge")).to_have_text("queued")
    await expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    await expect(page.get_by_role("button", name="again")).to_be_hidden()


async def test_a_run_is_started_with_an_uploaded_file_and_a_refusal_is_told_at_its_field(
    platform: Platform, page: Page, page_problems: PageProblems, tmp_path: Path
) -> None:
    page_problems.tolerated.append("400")
    made = await SeededEval.make(platform.database)
    items = tmp_path / "items.jsonl"
    items.write_text(json.dumps({"item": {"question": "1 + 1?", "answer": "2"}, "sample": {"output_text": "2"}}) + "\n")
    await sign_in(page, platform.url, platform.key, f"/evals/{made.id}")
    await page.get_by_role("button", name="New run").click()
    form = page.get_by_role("form", name="New run")
    await form.locator("input[type=file]").set_input_files(items)
    await expect(form.get_by_role("combobox", name="Items")).not_to_have_value("")
    await form.get_by_role("combobox", name="Model").fill("nobody")
    await form.get_by_role("button", name="Start the run").click()
    await expect(form.get_by_role("alert")).to_contain_text("data_source.model")
    model, prompt = form.get_by_role("combobox", name="Model"), form.get_by_label("Prompt")
    await expect(model).to_have_attribute("aria-invalid", "true")
    await expect(model).to_have_accessible_description(re.compile("nobody"))
    await expect(prompt).to_have_attribute("aria-invalid", "false")
    await form.get_by_label("Instructions").fill("Be brief.")
    await prompt.fill("{{question.text}}")
    await expect(model).to_have_attribute("aria-invalid", "false")
    await form.get_by_role("button", name="Start the run").click()
    await expect(prompt).to_have_attribute("aria-invalid", "true")
    await expect(prompt).to_have_accessible_description(re.compile("question"))
    await prompt.fill("{{item.question}}")
    await form.get_by_label("Temperature").fill("hot")
    await form.get_by_role("button", name="Start the run").click()
    await expect(form.get_by_label("Temperature")).to_have_accessible_description("Must be a number from 0 to 2.")
    await form.get_by_role("button", name="Judge the file's samples").click()
    await form.get_by_label("Name").fill("given")
    await form.get_by_role("button", name="Start the run").click()
    await expect(page.get_by_role("row", name=re.compile("given.*queued"))).to_be_visible()


async def test_an_eval_is_defined_with_the_fields_of_a_file_and_a_mistake_is_told_at_its_field(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("400")
    line = json.dumps({"item": {"question": "1 + 1?", "total": 2}}).encode()
    headers = {"authorization": f"Bearer {platform.key}"}
    async with httpx.AsyncClient(base_url=platform.url, headers=headers, timeout=60.0) as client:
        files = {"file": ("sums.jsonl", line)}
        assert (await client.post("/v1/files", data={"purpose": "evals"}, files=files)).is_success
    await sign_in(page, platform.url, platform.key, "/evals")
    await page.get_by_role("link", name="New eval").click()
    form = page.get_by_role("form", name="New eval")
    await form.get_by_label("Name", exact=True).fill("Sums")
    await form.get_by_label("Fields from a dataset").select_option("sums.jsonl")
    await expect(form.get_by_label("Fields of an item")).to_have_value(re.compile("total"))
    await form.get_by_role("button", name="Create the eval").click()
    await expect(form.get_by_label("Reference")).to_have_attribute("aria-invalid", "true")
    await form.get_by_label("Reference").fill("{{item.total}}")
    await form.get_by_label("Name of the criterion").fill("exact")
    await form.get_by_role("button", name="Create the eval").click()
    await expect(page.get_by_role("heading", name="Sums")).to_be_visible()
    criteria = page.get_by_role("region", name="What is measured")
    await expect(criteria).to_contain_text("total, question")
    await expect(criteria.get_by_role("row", name="exact")).to_contain_text("{{item.total}}")
