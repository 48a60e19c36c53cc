"""The list of jobs."""

from playwright.async_api import Page, expect

from rft.core.events import PolicyMeasured, RunEnded, StepDone
from tests.e2e.web.run_records import events, step_events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import shown, sign_in


async def test_without_jobs_it_says_how_to_launch_one(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key)
    await expect(page.get_by_text("No jobs yet")).to_be_visible()
    await expect(page.locator("pre")).to_contain_text("fine_tuning.jobs.create")


async def test_jobs_show_status_progress_and_rewards(platform: Platform, page: Page) -> None:
    done = await platform.new_job(suffix="done")
    await done.start()
    history = events(done.shape)
    await done.write(history)
    running = await platform.new_job(suffix="running", seed=2)
    await running.start()
    await running.write(events(running.shape, until_step=3, is_ended=False))
    await platform.new_job(suffix="waiting")

    await sign_in(page, platform.url, platform.key)
    rows = page.locator("table.jobs tbody tr")
    await expect(rows).to_have_count(3)
    await expect(rows.nth(0)).to_contain_text("not started")
    await expect(rows.nth(0)).to_contain_text("queued")
    await expect(rows.nth(1)).to_contain_text("3 / 8")
    await expect(rows.nth(1)).to_contain_text("running")
    last = next(event for event in reversed(history) if isinstance(event, StepDone))
    assert last.train is not None
    final = next(event.stats for event in history if isinstance(event, PolicyMeasured)).reward_estimate
    assert final is not None
    await expect(rows.nth(2)).to_contain_text("succeeded")
    await expect(rows.nth(2)).to_contain_text(shown(final.mean))
    await expect(rows.nth(2)).to_contain_text(f"final [{shown(final.low)}, {shown(final.high)}]")
    await expect(rows.nth(2)).to_contain_text(shown(last.train.reward_mean))
    await expect(rows.nth(2)).to_contain_text(f" {done.shape.rows * done.shape.group_size} ")

    await running.write(step_events(running.shape, 4))
    await expect(rows.nth(1)).to_contain_text("4 / 8")

    await rows.nth(2).get_by_role("link").click()
    await expect(page).to_have_url(f"{platform.url}/jobs/{done.id}")
    await expect(page.get_by_role("heading", name="done")).to_be_visible()


async def test_a_failed_job_says_why(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="broken")
    await job.start()
    message = "The tool `cat` answered HTTP 503 to every probe."
    ended = RunEnded(outcome="failed", best_step=None, error_code="tool_unreachable", error_message=message)
    await job.write([*events(job.shape, until_step=1, is_ended=False), ended])
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("tool_unreachable")
    await expect(alert).to_contain_text(message)
    await expect(page.locator(".badge").first).to_have_text("failed")


async def test_jobs_beyond_a_page_are_reached_and_their_curves_come_together(platform: Platform, page: Page) -> None:
    begun = [await platform.new_job(suffix=f"begun-{number}") for number in range(2)]
    for job in begun:
        await job.start()
        await job.write(events(job.shape, until_step=3, is_ended=False))
    for number in range(50):
        await platform.new_job(suffix=f"waits-{number}")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await sign_in(page, platform.url, platform.key)
    rows = page.locator("table.jobs tbody tr")
    await expect(rows).to_have_count(50)
    await expect(rows.last).to_contain_text("waits-0")
    assert not any("/curves" in url for url in asked), "nothing is drawn of jobs that wait"
    await page.get_by_role("button", name="Older jobs").click()
    await expect(rows).to_have_count(52)
    await expect(rows.last).to_contain_text("begun-0")
    await expect(rows.last.locator("svg path").first).to_be_attached()
    [url] = [url for url in asked if "/curves" in url]
    assert all(job.id in url for job in begun)
    await expect(page.get_by_role("button", name="Older jobs")).to_have_count(0)


async def test_jobs_are_searched_filtered_sorted_and_chosen(platform: Platform, page: Page) -> None:
    begun = await platform.new_job(suffix="mail begun")
    await begun.start()
    await begun.write(events(begun.shape, until_step=2, is_ended=False))
    _, _, coding = [await platform.new_job(suffix=suffix) for suffix in ("mail small", "mail large", "coding")]
    await sign_in(page, platform.url, platform.key)
    rows = page.locator("table.jobs tbody tr")
    await expect(rows).to_have_count(4)

    await page.get_by_role("searchbox", name="Search jobs").fill("MAIL")
    await expect(rows).to_have_count(3)
    await expect(page).to_have_url(f"{platform.url}/?search=MAIL")
    await page.get_by_role("combobox", name="Status").select_option("Queued")
    await expect(rows).to_have_count(2)
    await page.get_by_role("combobox", name="Order").select_option("Oldest first")
    await expect(rows.first).to_contain_text("mail small")
    await page.reload()
    await expect(rows.first).to_contain_text("mail small")
    await expect(page.get_by_role("searchbox", name="Search jobs")).to_have_value("MAIL")

    await page.get_by_role("searchbox", name="Search jobs").fill("nobody's")
    await page.get_by_role("button", name="Show all jobs").click()
    await expect(rows).to_have_count(4)
    await expect(page.get_by_role("searchbox", name="Search jobs")).to_have_value("")
    for suffix in ("mail begun", "coding"):
        await page.get_by_role("checkbox", name=f"Compare {suffix}").check()
    link = page.get_by_role("link", name="Compare 2 jobs")
    await expect(link).to_have_attribute("href", f"/compare?job={begun.id}&job={coding.id}")


async def test_a_job_that_is_over_is_deleted_from_its_page(platform: Platform, page: Page) -> None:
    done, running = await platform.new_job(suffix="done"), await platform.new_job(suffix="running", seed=2)
    await done.start()
    await done.write(events(done.shape))
    await running.start()
    await running.write(events(running.shape, until_step=1, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{running.id}")
    await expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    await expect(page.get_by_role("button", name="Delete")).to_have_count(0)

    await page.goto(f"{platform.url}/jobs/{done.id}")
    await page.get_by_role("button", name="Delete").click()
    question = page.get_by_role("alertdialog")
    await expect(question).to_contain_text("checkpoints and models go with it")
    await question.get_by_role("button", name="Keep it").click()
    await page.get_by_role("button", name="Delete").click()
    await question.get_by_role("button", name="Yes, delete").click()
    await expect(page).to_have_url(f"{platform.url}/")
    rows = page.locator("table.jobs tbody tr")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("running")
