"""Every page and job can be reached by keys alone."""

import re

import httpx
from playwright.async_api import Page, expect

from rft.core.events import RunEnded
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_evals import SeededEval
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems, sign_in


async def test_the_search_leads_to_jobs_and_pages_by_keys_alone(platform: Platform, page: Page) -> None:
    for suffix in ("finance", "retail"):
        await platform.new_job(suffix=suffix)
    await sign_in(page, platform.url, platform.key)
    await page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Page, job or action")
    await expect(field).to_be_focused()
    await page.keyboard.type("retail")
    await expect(page.get_by_role("dialog").get_by_role("option")).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{platform.url}/jobs/{platform.jobs[1].id}")
    await expect(field).to_be_hidden()

    await page.keyboard.press("Control+k")
    await page.keyboard.type("s")
    await expect(page.get_by_role("dialog").get_by_role("option").first).to_have_text(re.compile("Settings"))
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{platform.url}/settings")


async def test_escape_closes_what_is_open_and_typing_opens_nothing(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key)
    await page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    await expect(keys.get_by_text("find a page, a job or an action")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(keys).to_be_hidden()

    await page.get_by_role("button", name="Search").click()
    await page.keyboard.type("no such thing?")
    await expect(page.get_by_text("Nothing fits.")).to_be_visible()
    await expect(keys).to_be_hidden()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("combobox", name="Page, job or action")).to_be_hidden()


async def test_the_search_does_what_the_buttons_do(platform: Platform, page: Page, page_problems: PageProblems) -> None:
    page_problems.tolerated.append("401")  # of what is under way when the session ends
    for suffix in ("finance", "retail"):
        await platform.new_job(suffix=suffix)
    await sign_in(page, platform.url, platform.key)
    chosen = page.get_by_role("dialog").get_by_role("option", selected=True)
    await page.keyboard.press("Control+k")
    await page.keyboard.type("pause ret")
    await expect(chosen).to_have_text(re.compile("^Pause retail"))
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{platform.url}/jobs/{platform.jobs[1].id}")
    await expect(page.locator(".badge").first).to_have_text("paused")

    # Of the job whose page is open, without its name; cancelling is asked twice here, too.
    await page.keyboard.press("Control+k")
    await page.keyboard.type("cancel")
    await expect(chosen).to_have_text(re.compile("^Cancel retail"))
    await page.keyboard.press("Enter")
    question = page.get_by_role("alertdialog", name="Cancel retail for good?")
    await expect(question.get_by_role("button", name="Keep it")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.locator(".badge").first).to_have_text("paused")

    await page.keyboard.press("Control+k")
    await page.keyboard.type("variance")
    await expect(chosen).to_have_text(re.compile("^Variance"))
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("What its rows have to teach")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("sign out")
    await expect(chosen).to_have_text(re.compile("^Sign out"))
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("API key")).to_be_visible()


async def choose(page: Page, typed: str, shown: str) -> None:
    """The first thing that fits, by keys alone."""
    await page.keyboard.press("Control+k")
    await page.keyboard.type(typed)
    first = page.get_by_role("dialog").get_by_role("option", selected=True)
    await expect(first).to_have_text(re.compile(f"^{shown}"))
    await page.keyboard.press("Enter")


async def test_the_search_compares_jobs_and_reaches_evals_and_datasets_by_name(platform: Platform, page: Page) -> None:
    for suffix in ("finance", "retail"):
        await platform.new_job(suffix=suffix)
    one, other = platform.jobs
    made = await SeededEval.make(platform.database, "Arithmetic")
    run = await made.run("long", skill=0.5, is_going=True)
    async with httpx.AsyncClient(
        base_url=platform.url, headers={"authorization": f"Bearer {platform.key}"}, timeout=60
    ) as program:
        file = {"file": ("sums.jsonl", b'{"messages": [{"role": "user", "content": "1+1?"}]}\n')}
        stored = (await program.post("/v1/files", data={"purpose": "fine-tune"}, files=file)).json()
    await sign_in(page, platform.url, platform.key, f"/jobs/{one.id}")
    await choose(page, "compare retail", "Compare retail with finance")
    await expect(page).to_have_url(f"{platform.url}/compare?job={one.id}&job={other.id}")

    await choose(page, "sums", "sums.jsonl")
    await expect(page).to_have_url(f"{platform.url}/datasets/{stored['id']}")
    await choose(page, "cancel the run", "Cancel the run of Arithmetic")
    await expect(page).to_have_url(f"{platform.url}/evals/{made.id}/runs/{run}")
    async with platform.database.transaction() as connection:
        cursor = await connection.execute("select is_cancel_requested from eval_runs where id = %s", (run,))
        assert await cursor.fetchone() == (True,)
    await choose(page, "run arithmetic", "Run Arithmetic")
    await expect(page.get_by_role("form", name="New run")).to_be_visible()
    await page.get_by_role("button", name="New run").click()
    await expect(page.get_by_role("form", name="New run")).to_be_hidden()
    await expect(page).to_have_url(f"{platform.url}/evals/{made.id}")


async def test_an_action_of_the_search_that_is_refused_says_why(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("400")
    job = await platform.new_job(suffix="late")
    await job.start()
    await sign_in(page, platform.url, platform.key, "/settings")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("pause late")
    await expect(page.get_by_role("dialog").get_by_role("option")).to_have_text([re.compile("^Pause late")])
    await job.write([*events(job.shape, until_step=0, is_ended=False), RunEnded(outcome="succeeded", best_step=0)])
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("is succeeded and can no longer be paused")
