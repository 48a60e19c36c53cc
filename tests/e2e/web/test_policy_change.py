"""What a checkpoint does otherwise than the untrained policy."""

import re

import httpx
import pytest
from playwright.async_api import Page, expect

from rft.core.events import RolloutDone
from rft.core.grade import Grade
from rft.core.rollout import Split
from rft.platform.rollouts import service
from rft.platform.rollouts.policy_change import PolicyChangeObject
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import sign_in


async def test_rows_are_told_by_what_became_of_them_and_lead_to_both_traces(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="changed", valid_rows=30)
    await job.start()
    history = events(job.shape, until_step=8, is_ended=False)
    await job.write(history)
    rewards: dict[int, dict[int, float]] = {0: {}, 8: {}}
    for event in history:
        if isinstance(event, RolloutDone) and event.key.split is Split.VALID and event.key.step in rewards:
            assert isinstance(event.outcome, Grade)
            rewards[event.key.step][event.key.row_index] = event.outcome.reward
    gains = [rewards[8][row] - rewards[0][row] for row in rewards[0]]
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    assert better > 1

    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await page.get_by_role("link", name="what the policy does otherwise").click()
    await expect(page.get_by_role("region", name="Reward against cost")).to_contain_text(
        f"{better} better, {worse} worse, {len(gains) - better - worse} the same"
    )
    await expect(page.locator(".scatter circle")).to_have_count(len(gains))
    await page.get_by_role("radio", name="Tokens").or_(page.get_by_role("button", name="Tokens")).first.click()
    await expect(page.get_by_role("columnheader", name="no more tokens")).to_be_visible()

    await page.get_by_label("to step").select_option("2")
    await expect(page).to_have_url(re.compile(r"before=0&after=2"))
    changed = page.get_by_role("region", name="Rows that changed").locator("tbody tr").first
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
    async with httpx.AsyncClient(base_url=f"{platform.url}/v1/fine_tuning/jobs/{job.id}", headers=headers) as http:
        reply = await http.get("/policy_change", params={"before": 0, "after": 4})
        told = PolicyChangeObject.model_validate_json(reply.content, strict=True)
        assert [row.row_index for row in told.data] == list(range(6))
        assert told.reward is not None
        assert told.reward.rows == 6
        assert {tool.name for tool in told.tools} == {"cat", "list", "search"}
        monkeypatch.setattr(service, "_MOST_COMPARED", 5)
        refused = await http.get("/policy_change", params={"before": 0, "after": 4})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "too_many_rollouts")
