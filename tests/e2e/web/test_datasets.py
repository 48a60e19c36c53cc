"""Datasets in a browser: sent by dropping them, reported line by line, looked into, deleted."""

import asyncio
import json
import re
from pathlib import Path

from playwright.async_api import Page, Route, expect

from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems, sign_in

ROW = {"messages": [{"role": "user", "content": "How large are the <b>assets</b>?"}], "answer": "64"}
DROP = """
([place, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], "dropped.jsonl"));
  for (const type of ["dragover", "drop"]) {
    place.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
  }
}
"""


def rows(count: int) -> str:
    return "".join(json.dumps({**ROW, "number": number}) + "\n" for number in range(count))


async def upload(page: Page, folder: Path, name: str, content: str) -> None:
    """Choose it; its page is shown."""
    path = folder / name
    path.write_text(content)
    await page.locator("input[type=file]").set_input_files(path)
    await expect(page.get_by_role("heading", name=name)).to_be_visible()


async def test_a_dropped_file_shows_its_rows(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key, "/datasets")
    place = await page.locator(".upload").element_handle()
    await page.evaluate(DROP, [place, rows(30)])
    await expect(page.get_by_role("heading", name="dropped.jsonl")).to_be_visible()
    await expect(page.locator(".badge")).to_have_text("good")
    await expect(page.locator(".preview > li")).to_have_count(20)
    await expect(page.get_by_text("Nowhere yet")).to_be_visible()
    first = page.locator(".preview > li").first
    await expect(first).to_contain_text("How large are the <b>assets</b>?")
    await first.locator("summary").click()
    await expect(first.get_by_role("region", name="Line 1")).to_contain_text('"answer": "64"')


async def test_a_file_on_its_way_shows_how_far_it_is_and_can_be_stopped(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("ERR_FAILED|ERR_ABORTED")
    may_go_on = asyncio.Event()

    async def held(route: Route) -> None:
        await may_go_on.wait()
        await route.abort()

    await page.route(re.compile("/v1/(files|uploads)"), held)
    await sign_in(page, platform.url, platform.key, "/settings")
    await page.get_by_role("link", name="Datasets").click()
    place = await page.locator(".upload").element_handle()
    await page.evaluate(DROP, [place, rows(30)])
    progress = page.get_by_role("progressbar", name="Upload of dropped.jsonl")
    await expect(progress).to_have_attribute("aria-valuenow", re.compile(r"^\d+$"))
    await expect(page.locator(".upload")).to_contain_text(re.compile(r"\d %|reading its lines"))
    await page.locator(".upload").get_by_role("button", name="Stop").click()
    await expect(page.get_by_text("The upload was stopped; nothing of it is kept.")).to_be_visible()
    await expect(progress).to_be_hidden()
    may_go_on.set()


async def test_a_file_that_is_stored_takes_nobody_away_from_another_page(platform: Platform, page: Page) -> None:
    may_go_on = asyncio.Event()

    async def held(route: Route) -> None:
        if route.request.method == "POST":
            await may_go_on.wait()
        await route.continue_()

    await page.route("**/v1/files", held)
    await sign_in(page, platform.url, platform.key, "/datasets")
    place = await page.locator(".upload").element_handle()
    await page.evaluate(DROP, [place, rows(3)])
    await expect(page.get_by_role("progressbar", name="Upload of dropped.jsonl")).to_be_visible()
    await page.get_by_role("link", name="Settings").click()
    await expect(page.get_by_role("region", name="API keys")).to_be_visible()
    async with page.expect_response(lambda reply: reply.request.method == "POST" and "/v1/files" in reply.url):
        may_go_on.set()
    await page.get_by_role("link", name="Datasets").click()
    await expect(page.get_by_role("link", name="dropped.jsonl").first).to_be_visible()
    await expect(page).to_have_url(f"{platform.url}/datasets")


async def test_a_file_that_no_job_can_use_is_reported_line_by_line(
    platform: Platform, page: Page, tmp_path: Path
) -> None:
    await sign_in(page, platform.url, platform.key, "/datasets")
    await upload(page, tmp_path, "bad.jsonl", rows(2) + '{"messages": []}\n{oops\n')
    report = page.get_by_role("region", name="Bad lines").first
    await expect(report.locator("tbody tr")).to_have_count(2)
    await expect(report.locator("tbody tr").first).to_contain_text("messages")
    await expect(report.locator("tbody tr td").first).to_have_text("3")


async def test_a_file_is_found_where_it_is_used_and_deleted_where_it_is_not(
    platform: Platform, page: Page, tmp_path: Path
) -> None:
    await sign_in(page, platform.url, platform.key, "/datasets")
    await upload(page, tmp_path, "used.jsonl", rows(2))
    file_id = page.url.rpartition("/")[2]
    job = await platform.new_job(suffix="reports")
    async with platform.database.connection() as connection:
        await connection.execute("update jobs set training_file = %s where id = %s", (file_id, job.id))
    await page.reload()
    uses = page.get_by_role("region", name="Where it is used")
    await expect(uses.get_by_role("link", name="reports")).to_have_attribute("href", f"/jobs/{job.id}")
    await page.goto(f"{platform.url}/datasets")
    await upload(page, tmp_path, "unused.jsonl", rows(3))
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Yes, delete").click()
    await expect(page.get_by_role("link", name="used.jsonl", exact=True)).to_be_visible()
    await expect(page.get_by_role("link", name="unused.jsonl")).to_have_count(0)
