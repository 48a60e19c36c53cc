"""What the rows of a job have to teach, in a browser."""

import re

from playwright.async_api import Page, expect

from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import saved_table, sign_in


async def test_the_groups_of_a_step_say_which_rows_teach(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="spread")
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await page.get_by_role("link", name="which rows teach").click()
    variance = page.get_by_role("region", name="Variance")
    await expect(variance.get_by_text("two or more per row show which rows")).to_be_visible()
    await page.get_by_role("button", name="Training").click()
    await expect(page).to_have_url(re.compile(r"\?split=train&step=1$"))
    await expect(variance.locator(".facts")).to_contain_text(f"of {job.shape.rows} rows")
    await expect(variance.get_by_role("img")).to_be_visible()
    table = await saved_table(page, "Variance")
    assert {int(row["samples"]) for row in table} == {job.shape.group_size}
    assert len(table) == job.shape.rows
    rows = page.get_by_role("region", name="Rows that differ most")
    await expect(rows.locator("tbody tr")).to_have_count(job.shape.rows)
    await rows.get_by_role("link").first.click()
    await expect(page).to_have_url(re.compile(rf"/jobs/{job.id}/groups/train/1/\d+$"))
