"""The table of all rollouts, the walk through a filtered list, a group side by side, and a hostile trace."""

import re
from collections.abc import Callable

from playwright.async_api import Page, expect

from rft.core.events import RolloutDone
from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.group import advantages_G
from rft.core.rollout import Split
from tests.e2e.web.run_records import events, rollout, step_events
from tests.e2e.web.seeded_platform import Platform, SeededJob
from tests.e2e.web.test_rollouts_and_traces import finished_job, trace_url
from tests.e2e.web.watched_page import PageProblems, sign_in
from tests.shared.hostile_trace import SCRIPT, hostile

ROWS = "tr.clickable"


async def open_rollouts(platform: Platform, page: Page, job: SeededJob, search: str = "") -> None:
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts{search}")
    await expect(page.get_by_role("heading", name="Rollouts")).to_be_visible()


async def shown_ids(page: Page) -> list[str]:
    return [text.strip() for text in await page.locator(f"{ROWS} .row-link").all_text_contents()]


async def test_rollouts_are_searched_filtered_and_sorted_by_the_address(platform: Platform, page: Page) -> None:
    job, rollouts = await finished_job(platform)
    await open_rollouts(platform, page, job)
    await expect(page.locator(ROWS).first).to_contain_text("The ")

    search = page.get_by_role("searchbox", name="Words in prompt or answer")
    await search.fill("Castell long*")
    await search.press("Enter")
    found = [done for done in rollouts if "long-term debt of Castell" in done.messages[1].content]
    assert 0 < len(found) < 100
    await expect(page.locator(".count")).to_have_text(f"{len(found)} rollouts")
    await expect(page).to_have_url(re.compile(r"\?q=Castell\+long\*$"))

    await page.get_by_role("button", name="Reward").click()
    await expect(page.locator("th[aria-sort=descending]")).to_have_text("Reward ↓")
    await page.get_by_role("button", name="Reward").click()
    await expect(page).to_have_url(re.compile("sort=reward&order=asc$"))
    least = min(done.outcome.reward for done in found if isinstance(done.outcome, Grade))
    await expect(page.locator(ROWS).first).to_contain_text(f"{least:.2f}")

    await page.get_by_role("button", name="Clear").click()
    await page.get_by_role("button", name="More filters").click()
    await page.get_by_label("Failure").select_option("timeout")
    failed = [done for done in rollouts if isinstance(done.outcome, Failure) and done.outcome.code == "timeout"]
    await expect(page.locator(ROWS)).to_have_count(len(failed))
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Take away: failure timeout").click()
    await expect(page.locator(ROWS)).not_to_have_count(len(failed))


async def test_each_filter_leaves_what_it_says(platform: Platform, page: Page) -> None:
    job, rollouts = await finished_job(platform)
    await open_rollouts(platform, page, job, "?step=2")
    listed = [done for done in rollouts if done.key.step == 2]

    def reward(done: RolloutDone) -> float:
        return done.outcome.reward if isinstance(done.outcome, Grade) else -1

    asked: list[tuple[str, str, str, Callable[[RolloutDone], bool]]] = [
        ("Reward", "from", "0.4", lambda done: reward(done) >= 0.4),
        ("Reward", "to", "0.6", lambda done: 0 <= reward(done) <= 0.6),
        ("Tokens", "from", "90", lambda done: done.completion_tokens >= 90),
        ("Seconds", "to", "1.5", lambda done: done.duration_s <= 1.5),
        ("Tool called", "", "list", lambda done: "list" in done.tool_calls),
        ("Ended", "", "completed", lambda done: done.stop_reason == "completed"),
        ("Fault of", "", "endpoint", lambda done: isinstance(done.outcome, Failure)),
    ]
    for line, field, value, fits in asked:
        await page.get_by_role("button", name="More filters").click()
        filters = page.get_by_role("group", name="More filters")
        if field:
            typed = filters.locator(".filter-line", has_text=line).get_by_label(field)
            await typed.fill(value)
            await typed.press("Enter")
        else:
            await filters.get_by_label(line).select_option(value)
        await page.keyboard.press("Escape")
        await expect_only(page, [done for done in listed if fits(done)], line)
        await page.goto(f"{platform.url}/jobs/{job.id}/rollouts?step=2")
    row = page.get_by_role("textbox", name="Row")
    await row.fill("8")
    await row.press("Enter")
    await expect_only(page, [done for done in listed if done.key.row_index == 8], "row")


async def expect_only(page: Page, wanted: list[RolloutDone], filtered_by: str) -> None:
    assert len(wanted) > 0, filtered_by
    shown = "1 rollout" if len(wanted) == 1 else f"{len(wanted)} rollouts"
    await expect(page.locator(".count"), filtered_by).to_have_text(shown)


async def test_what_the_api_refuses_is_said_in_its_words(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("400")
    job, _ = await finished_job(platform)
    await open_rollouts(platform, page, job, "?contains=revenue")
    await expect(page.get_by_role("alert")).to_contain_text("one step alone")
    await page.get_by_role("textbox", name="Step").fill("1")
    await expect(page.locator(ROWS).first).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_columns_are_chosen_and_remembered(platform: Platform, page: Page) -> None:
    job, _ = await finished_job(platform)
    await open_rollouts(platform, page, job)
    await page.get_by_role("button", name="Columns").click()
    await page.get_by_role("checkbox", name="Prompt").uncheck()
    await page.get_by_role("checkbox", name="Policy").check()
    await page.reload()
    await expect(page.locator("th").filter(has_text="Policy")).to_be_visible()
    await expect(page.locator("th").filter(has_text="Prompt")).to_have_count(0)


async def test_keys_move_through_a_long_list_and_a_trace_walks_it(platform: Platform, page: Page) -> None:
    """Beyond what one request brings; only the rows in sight are there."""
    job, rollouts = await finished_job(platform)
    trained = [done for done in rollouts if done.key.split is Split.TRAIN]
    assert len(trained) > 100
    await open_rollouts(platform, page, job, "?split=train&order=asc")
    await expect(page.locator(".count")).to_have_text("100 rollouts and more")
    assert await page.locator(ROWS).count() < 80
    table = page.get_by_role("region", name="Table of rollouts")
    await table.evaluate("(one) => one.scrollTo(0, one.scrollHeight)")
    await expect(page.locator(".count")).to_have_text(f"{len(trained)} rollouts")
    await table.evaluate("(one) => one.scrollTo(0, one.scrollHeight)")
    await expect(page.locator(ROWS).last).to_have_attribute("aria-rowindex", str(len(trained) + 1))
    await table.evaluate("(one) => one.scrollTo(0, 0)")
    await expect(page.locator(ROWS).first).to_have_attribute("aria-rowindex", "2")
    listed = await shown_ids(page)

    for key in ("j", "ArrowDown", "j", "k"):
        await page.keyboard.press(key)
    await expect(page.locator("tr.is-current")).to_contain_text(listed[1])
    await page.keyboard.press("Enter")
    for key, place in (("", 1), ("j", 2), ("ArrowRight", 3), ("k", 2)):
        await page.keyboard.press(key or "Shift")
        await expect(page).to_have_url(re.compile(rf"/rollouts/{listed[place]}[^?]*\?split=train&order=asc$"))
        await expect(page.get_by_role("link", name="Next →")).to_be_visible()
    await page.get_by_role("link", name="back to the filtered list").click()
    await expect(page.locator(".count")).to_have_text(f"{len(trained)} rollouts")


async def test_what_comes_in_waits_above_the_table_until_it_is_asked_for(platform: Platform, page: Page) -> None:
    """The rows under the reader stay where they are; a filter counts only what it lets through."""
    job = await platform.new_job(suffix="arriving")
    await job.start()
    await open_rollouts(platform, page, job, "?split=train")
    await expect(page.get_by_text("No rollout matches")).to_be_visible()
    per_step = job.shape.rows * job.shape.group_size
    await job.write(events(job.shape, until_step=1, is_ended=False))
    # An empty list has no place to keep.
    await expect(page.locator(".count")).to_have_text(f"{per_step} rollouts")
    before = await shown_ids(page)
    first = page.locator(ROWS).first
    place = await first.bounding_box()

    step = step_events(job.shape, 2)
    assert any(isinstance(event, RolloutDone) and event.key.split is Split.VALID for event in step)
    await job.write(step)
    line = page.get_by_role("button", name=f"{per_step} new rollouts: show")
    await expect(line).to_be_visible()
    assert await shown_ids(page) == before
    assert await first.bounding_box() == place
    await line.click()
    await expect(page.locator(".count")).to_have_text(f"{2 * per_step} rollouts")
    assert (await shown_ids(page))[0] not in before
    await expect(line).to_have_count(0)

    # The job's own page: fed by its stream.
    await page.goto(f"{platform.url}/jobs/{job.id}")
    await expect(page.locator(".liveness")).to_have_text("live")
    newest = page.locator("table.rollouts tbody tr").first
    await expect(newest).to_be_visible()
    id_before = await newest.locator(".row-link").inner_text()
    await job.write(step_events(job.shape, 3))
    told = page.get_by_role("button", name=re.compile("25 or more new rollouts: show"))
    await expect(told).to_be_visible()
    assert await newest.locator(".row-link").inner_text() == id_before
    await told.click()
    await expect(newest.locator(".row-link")).not_to_have_text(id_before)


def graded(done: RolloutDone) -> float:
    assert isinstance(done.outcome, Grade)
    return done.outcome.reward


async def test_a_group_shows_where_it_parts(platform: Platform, page: Page) -> None:
    job, rollouts = await finished_job(platform, failing_share=0.0)
    first = next(done for done in rollouts if done.key.split is Split.TRAIN)
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts/{first.trace_id}")
    await page.get_by_role("link", name="The group side by side").click()
    columns = page.get_by_role("article")
    await expect(columns).to_have_count(job.shape.group_size)
    await expect(page.get_by_text(re.compile(r"They part at turn \d+, in \d+ ways"))).to_be_visible()
    await expect(columns.first).to_contain_text("way A")
    group = [done for done in rollouts if (done.key.split, done.key.step) == (Split.TRAIN, first.key.step)]
    rewards_G = [graded(done) for done in group if done.key.row_index == first.key.row_index]
    for column, advantage in enumerate(advantages_G(rewards_G)):
        assert advantage, "the group has signal, and no reward is its mean"
        told = f"advantage {advantage:+.2f}".replace("-", "\N{MINUS SIGN}")
        await expect(columns.nth(column)).to_contain_text(told)
    await columns.first.get_by_role("link", name="#1").click()
    await expect(page).to_have_url(trace_url(platform, job, first))
    valid = next(done.key for done in rollouts if done.key.split is Split.VALID)
    await page.goto(f"{platform.url}/jobs/{job.id}/groups/valid/{valid.step}/{valid.row_index}")
    await expect(columns).not_to_have_count(0)
    await expect(page.get_by_text("dvantage")).to_have_count(0)  # Nothing was learnt from these.


async def test_a_hostile_trace_is_text_and_stays_usable(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="hostile")
    await job.start()
    done = hostile(rollout(job.shape, 1, Split.TRAIN, row_index=4, index=0), calls=10_000)
    await job.write([*events(job.shape, until_step=0, is_ended=False), done])
    await open_rollouts(platform, page, job, "?split=train")
    await expect(page.locator(ROWS)).to_contain_text("<img src=x")
    await page.locator(ROWS).get_by_role("link").click()
    await expect(page.locator(".message.user")).to_contain_text(SCRIPT)
    assert await page.locator(".call").count() < 400
    search = page.get_by_role("searchbox", name="Search in this trace")
    await search.fill("call 1234 <img")
    await expect(page.locator(".call")).to_have_count(1)
    await expect(page.locator(".call .arguments mark")).to_have_text("call 1234 <img")
    await search.fill("reply to call_9876")
    await expect(page.locator(".call")).to_have_count(1)
    await expect(page.locator("mark")).to_have_text("reply to call_9876")
    await search.fill("gnp.exe")
    await page.get_by_role("button", name=re.compile("more line")).last.click()
    await expect(page.locator(".message.assistant mark")).to_have_text("gnp.exe")
    written = page.locator(".message.assistant pre")
    assert await written.evaluate("(one) => one.textContent.length") < 200_000
    # What turns the direction of text stays within it.
    assert await written.evaluate("(one) => getComputedStyle(one).unicodeBidi") in ("isolate", "plaintext")
    assert await page.evaluate("window.hacked") is None
    assert await page.locator("main img, main script").count() == 0
