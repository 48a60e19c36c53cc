"""Several jobs side by side."""

from playwright.async_api import Page, expect
from psycopg.types.json import Jsonb

from rft.core.events import PolicyMeasured
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_platform import METHOD, Platform, SeededJob
from tests.e2e.web.watched_page import PageProblems, saved_table, shown, sign_in


async def compared_job(platform: Platform, suffix: str, seed: int) -> SeededJob:
    """A job that is over, ordered with a number of its own tool calls."""
    job = await platform.new_job(suffix=suffix, seed=seed)
    await job.start()
    await job.write(events(job.shape))
    method = METHOD | {"reinforcement": METHOD["reinforcement"] | {"max_episode_steps": 10 + seed}}  # pyright: ignore
    async with platform.database.transaction() as connection:
        await connection.execute("update jobs set method = %s where id = %s", (Jsonb(method), job.id))
    return job


async def test_seeds_are_told_apart_to_the_last_digit(platform: Platform, page: Page) -> None:
    jobs = [await platform.new_job(suffix=suffix) for suffix in ("one", "other")]
    seeds = [2**53, 2**53 + 1]
    async with platform.database.transaction() as connection:
        for job, seed in zip(jobs, seeds, strict=True):
            await connection.execute("update jobs set seed = %s where id = %s", (seed, job.id))
    await sign_in(page, platform.url, platform.key, f"/compare?job={jobs[0].id}&job={jobs[1].id}")
    settings = page.get_by_role("region", name="Settings").locator("tbody tr")
    await expect(settings).to_have_count(1)
    await expect(settings).to_contain_text(f"seed{seeds[0]}{seeds[1]}")
    await page.goto(f"{platform.url}/jobs/{jobs[1].id}")
    await expect(page.get_by_role("region", name="Setup")).to_contain_text(f"Seed{seeds[1]}")


async def test_two_jobs_are_compared_on_three_axes(platform: Platform, page: Page, page_problems: PageProblems) -> None:
    page_problems.tolerated.append("404")
    jobs = [await compared_job(platform, suffix, seed) for seed, suffix in enumerate(("one", "other"))]
    address = "&".join(f"job={job.id}" for job in jobs)
    await sign_in(page, platform.url, platform.key, f"/compare?{address}&job=ftjob-nobody")
    await expect(page.get_by_role("alert")).to_contain_text("There is no job ftjob-nobody")

    figures = page.get_by_role("region", name="Figures").locator("tbody tr")
    await expect(figures).to_have_count(2)
    measured = next(event for event in events(jobs[1].shape) if isinstance(event, PolicyMeasured))
    final = measured.stats.reward_estimate
    assert final is not None
    await expect(figures.nth(1)).to_contain_text(f"{shown(final.mean)}[{shown(final.low)}, {shown(final.high)}]final")

    settings = page.get_by_role("region", name="Settings").locator("tbody tr")
    await expect(settings).to_have_count(1)
    await expect(settings).to_contain_text("max episode steps1011")
    await page.get_by_role("button", name="All", exact=True).click()
    await expect(settings.filter(has_text="tools.search.server url")).to_have_count(1)

    chart = page.get_by_role("application")
    await expect(chart).to_have_attribute("data-points", str(jobs[0].shape.total_steps + 1))
    await page.get_by_role("button", name="Rollouts spent").click()
    await page.get_by_role("combobox", name="Metric").select_option("Train reward")
    await expect(chart.locator("canvas")).to_be_visible()
    await chart.focus()
    await page.keyboard.press("ArrowRight")
    await expect(page.get_by_text(f"{jobs[0].shape.valid_rows} rollouts", exact=True)).to_be_visible()
    table = await saved_table(page, "Train reward")
    assert list(table[0]) == ["rollouts", "one", "other"]
    assert int(table[0]["rollouts"]) == jobs[0].shape.valid_rows
    intervals = page.get_by_role("checkbox", name="Intervals")
    await intervals.check()
    await expect(chart).to_be_visible()
    await page.get_by_role("button", name="Smoothed").click()
    await expect(intervals).to_be_disabled()
    await page.get_by_role("button", name="As measured").click()
    await expect(intervals).to_be_checked()
    await page.get_by_role("button", name="Time").click()
    await expect(page.get_by_text("seconds since the start")).to_be_visible()

    await page.get_by_role("button", name="Remove one from the comparison").click()
    await expect(figures).to_have_count(1)
    await expect(page).to_have_url(f"{platform.url}/compare?job={jobs[1].id}&job=ftjob-nobody")
