"""What a checkpoint does otherwise than the untrained policy."""

import asyncio
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean

import httpx
import pytest
from playwright.async_api import Page, Route, expect

from rft.core.events import RolloutDone, TrainEvent
from rft.core.grade import Grade
from rft.core.rollout import Split
from rft.platform.rollouts import service
from rft.platform.rollouts.call_change import CallChangeObject
from rft.platform.rollouts.policy_change import PolicyChangeObject
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import saved_table, sign_in


async def test_rows_are_told_by_what_became_of_them_and_lead_to_both_traces(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="changed", valid_rows=30)
    await job.start()
    history = events(job.shape, until_step=8, is_ended=False)
    await job.write(history)
    done = {step: {one.key.row_index: one for one in valid_rollouts(history, step)} for step in (0, 8)}
    rewards = {step: {row: reward_of(one) for row, one in rows.items()} for step, rows in done.items()}
    gains = [rewards[8][row] - rewards[0][row] for row in rewards[0]]
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    assert better > 1

    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await page.get_by_role("link", name="what the policy does otherwise").click()
    await expect(page.get_by_role("region", name="Reward against cost")).to_contain_text(
        f"{better} better, {worse} worse, {len(gains) - better - worse} the same"
    )
    await expect(page.locator(".scatter circle")).to_have_count(len(gains))
    table = await saved_table(page, "Reward against calls")
    told = {int(row["row"]): (float(row["reward before"]), float(row["reward after"])) for row in table}
    assert told == {row: (rewards[0][row], rewards[8][row]) for row in rewards[0]}
    costs: dict[str, Callable[[RolloutDone], float]] = {
        "Calls": lambda one: sum(one.tool_calls.values()),
        "Tokens": lambda one: one.completion_tokens,
        "Time": lambda one: one.duration_s,
    }
    quadrants = page.locator("table.quadrants")
    for label, cost in costs.items():
        await page.get_by_role("group", name="Held against").get_by_role("button", name=label).click()
        await expect(page.get_by_role("columnheader", name=f"no more {label.lower()}")).to_be_visible()
        for name, sign in (("better", 1), ("worse", -1)):
            rows = [row for row in rewards[0] if (rewards[8][row] - rewards[0][row]) * sign > 0]
            more = sum(cost(done[8][row]) > cost(done[0][row]) for row in rows)
            await expect(quadrants.get_by_role("row", name=name)).to_have_text(f"{name}{len(rows) - more}{more}")
        await expect(quadrants.get_by_role("row", name="the same")).to_have_text(
            f"the same{len(gains) - better - worse}"
        )
    calls = page.get_by_role("region", name="Reward against cost").get_by_role("row", name="search")
    per_rollout = [fmean(one.tool_calls.get("search", 0) for one in done[step].values()) for step in (0, 8)]
    for cell, mean in zip(await calls.get_by_role("cell").all_inner_texts(), ("search", *per_rollout), strict=True):
        assert cell == mean if isinstance(mean, str) else float(cell) == pytest.approx(mean, abs=0.06)

    may_come = asyncio.Event()

    async def held_back(route: Route) -> None:
        await may_come.wait()
        await route.continue_()

    await page.route(re.compile(r"change\?before=0&after=2"), held_back)
    await page.get_by_label("to step").select_option("2")
    await expect(page).to_have_url(re.compile(r"before=0&after=2"))
    of_step_8 = page.locator("section", has=page.get_by_text("Rows that changed"))
    await expect(of_step_8).to_have_attribute("inert", "")
    may_come.set()
    await expect(of_step_8).not_to_have_attribute("inert", "")
    changed = page.get_by_role("region", name="Rows that changed").locator("tbody tr").first
    await changed.get_by_role("link", name="side by side").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^Row \d+ before and after$"))
    columns = page.get_by_role("article")
    await expect(columns).to_have_count(2)
    await expect(columns.first.get_by_role("link")).to_have_text("step 0")
    await expect(columns.last.get_by_role("link")).to_have_text("step 2")
    await expect(page.get_by_text(re.compile(r"^They part at turn \d+\.$"))).to_be_visible()
    assert await columns.first.locator("header strong").inner_text() != (
        await columns.last.locator("header strong").inner_text()
    ), "the row changed"
    await page.go_back()
    await changed.get_by_role("link", name="trace").last.click()
    await expect(page.get_by_role("region", name="Outcome")).to_be_visible()


async def test_a_job_that_was_measured_once_says_what_is_missing(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="early")
    await job.start()
    await job.write(events(job.shape, until_step=1, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/change")
    await expect(page.get_by_text("Nothing to compare yet")).to_be_visible()


async def test_two_policies_are_compared_whole_or_not_at_all(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await platform.new_job(suffix="whole", valid_rows=6)
    await job.start()
    await job.write(events(job.shape, until_step=4, is_ended=False))
    headers = {"authorization": f"Bearer {platform.key}"}
    async with httpx.AsyncClient(
        base_url=f"{platform.url}/v1/fine_tuning/jobs/{job.id}", headers=headers, timeout=60.0
    ) as http:
        reply = await http.get("/policy_change", params={"before": 0, "after": 4})
        told = PolicyChangeObject.model_validate_json(reply.content, strict=True)
        assert [row.row_index for row in told.data] == list(range(6))
        assert told.reward is not None
        assert told.reward.rows == 6
        assert {tool.name for tool in told.tools} == {"cat", "list", "search"}
        monkeypatch.setattr(service, "_MOST_COMPARED", 5)
        refused = await http.get("/policy_change", params={"before": 0, "after": 4})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "too_many_rollouts")


def valid_rollouts(history: Sequence[TrainEvent], step: int) -> list[RolloutDone]:
    rollouts = (event for event in history if isinstance(event, RolloutDone))
    return [done for done in rollouts if done.key.split is Split.VALID and done.key.step == step]


def reward_of(done: RolloutDone) -> float:
    assert isinstance(done.outcome, Grade)
    return done.outcome.reward


def calls_of(done: RolloutDone) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for message in done.messages for call in message.tool_calls]


async def test_calls_that_are_made_again_are_told_of_both_policies(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="again", valid_rows=20)
    await job.start()
    history = events(job.shape, until_step=8, is_ended=False)
    await job.write(history)
    made = {step: [calls_of(done) for done in valid_rollouts(history, step)] for step in (0, 8)}
    again = {step: sum(len(calls) - len(set(calls)) for calls in rollouts) for step, rollouts in made.items()}
    assert again[0] > again[8], "the untrained policy goes in circles"
    headers = {"authorization": f"Bearer {platform.key}"}
    async with httpx.AsyncClient(
        base_url=f"{platform.url}/v1/fine_tuning/jobs/{job.id}", headers=headers, timeout=60.0
    ) as http:
        reply = await http.get("/call_change", params={"before": 0, "after": 8})
    told = CallChangeObject.model_validate_json(reply.content, strict=True)
    assert (told.calls_before.repeated, told.calls_after.repeated) == (again[0], again[8])
    assert told.calls_before.calls == sum(map(len, made[0]))
    searched = sum(pair == ("search", "cat") for calls in made[8] for pair in pairwise(name for name, _ in calls))
    [shown] = [pair for pair in told.pairs if (pair.first, pair.second) == ("search", "cat")]
    assert shown.after == pytest.approx(searched / 20)

    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/change")
    panel = page.get_by_role("region", name="Repeated calls")
    await expect(panel).to_contain_text(f"{again[0]} of {sum(map(len, made[0]))} calls at step 0")
    await expect(panel.get_by_role("row", name="search → cat")).to_be_visible()
    first = told.repeated[0]
    row = panel.locator("tr", has_text=first.arguments).first
    await expect(row).to_contain_text(first.tool)
    await row.get_by_role("link", name="trace").click()
    await expect(page).to_have_url(re.compile(first.trace_id))


async def test_calls_are_compared_whole_or_not_at_all(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await platform.new_job(suffix="whole", valid_rows=6)
    await job.start()
    await job.write(events(job.shape, until_step=4, is_ended=False))
    monkeypatch.setattr(service, "_MOST_READ", 5)
    headers = {"authorization": f"Bearer {platform.key}"}
    async with httpx.AsyncClient(
        base_url=f"{platform.url}/v1/fine_tuning/jobs/{job.id}", headers=headers, timeout=60.0
    ) as http:
        refused = await http.get("/call_change", params={"after": 4})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "too_many_rollouts")


async def test_a_pair_with_a_trace_that_was_abandoned_says_so(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="pair")
    await job.start()
    history = events(job.shape, until_step=0, is_ended=False)
    await job.write(history)
    before, after = [event.trace_id for event in history if isinstance(event, RolloutDone)][:2]

    async def without_end(route: Route) -> None:
        reply = await route.fetch()
        await route.fulfill(response=reply, json=(await reply.json()) | {"status": "abandoned", "record": None})

    await page.route(f"**/rollouts/{after}", without_end)
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/pair?before={before}&after={after}")
    await expect(page.get_by_text(f"{after} was abandoned")).to_be_visible()
    await expect(page.get_by_role("status", name="Loading")).to_have_count(0)
