"""A trace token by token: who wrote each, how likely it was, and how the trainer saw it."""

import re

from playwright.async_api import Page, Route, expect

from rft.core.events import RolloutDone
from rft.core.rollout import Split
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.token_records import tokens_of, told
from tests.e2e.web.watched_page import PageProblems, sign_in

HEBREW = "\u05e9\u05dc\u05d5\u05dd"
HOSTILE = ["<script>alert(1)</script>", "\x1b[31m", "\u202egnp.exe", HEBREW, "&lt;b&gt;", "\x00", "word", "\n"]


async def test_tokens_are_told_of_one_by_one(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="tokens")
    await job.start()
    history = events(job.shape, until_step=2, is_ended=False)
    first, second, *_ = (e for e in history if isinstance(e, RolloutDone) and e.key.split is Split.TRAIN)
    await job.write([*tokens_of(first), *history])
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts/{first.trace_id}")
    await page.get_by_role("button", name="Tokens", exact=True).click()
    panel = page.get_by_role("region", name="Tokens", exact=True)
    text = panel.get_by_role("region", name="Text of the tokens")
    await expect(text).to_contain_text(first.messages[1].content)
    await expect(panel).to_contain_text("of them the prompt")
    details = panel.get_by_role("status")
    await text.locator(".token").first.hover()
    await expect(details).to_contain_text("token 1 · id 100 · by the prompt")
    sampled = text.locator(".token.p-4").first
    await sampled.hover()
    await expect(details).to_contain_text(
        re.compile(r"by the policy · log-probability .* \((< )?0.* %\) · importance ratio")
    )
    await expect(details).to_contain_text("advantage +0.830")

    await panel.get_by_role("button", name="Importance ratio").click()
    await expect(text.locator(".token.up-3, .token.up-2").first).to_be_visible()
    await expect(panel.locator(".token-legend")).to_contain_text("within 1 %")
    await panel.get_by_role("button", name="Advantage").click()
    await expect(panel).to_contain_text("what it sampled was made more likely")
    await expect(text.locator(".token.down-1")).to_have_count(0)

    await text.focus()
    await page.keyboard.press("Home")
    await page.keyboard.press("ArrowRight")
    await expect(details).to_contain_text("token 2 ·")
    await expect(text.locator(".token.is-current")).to_have_count(1)
    await page.keyboard.press("n")
    await expect(details).to_contain_text("by the policy")
    await expect(page).to_have_url(re.compile(r"#tokens$"))

    await page.get_by_role("link", name="Next →").click()
    await expect(page).to_have_url(f"{platform.url}/jobs/{job.id}/rollouts/{second.trace_id}#tokens")
    await expect(page.get_by_text("No tokens are kept")).to_be_visible()
    await page.get_by_role("button", name="Conversation", exact=True).click()
    await expect(page.locator(".message.user")).to_be_visible()
    await expect(page).to_have_url(re.compile(re.escape(second.trace_id) + "$"))


async def test_a_long_hostile_text_stays_text_and_only_what_is_in_sight_is_drawn(
    platform: Platform, page: Page
) -> None:
    job = await platform.new_job(suffix="long")
    await job.start()
    history = events(job.shape, until_step=1, is_ended=False)
    done = next(event for event in history if isinstance(event, RolloutDone))
    rest = [(HOSTILE[at % len(HOSTILE)], at % 5 > 1) for at in range(9_000)]
    await job.write([*told(done.trace_id, ["a"], [*rest, ("the end", True)]), *history])
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await page.goto(f"{platform.url}/jobs/{job.id}/rollouts/{done.trace_id}#tokens")
    text = page.get_by_role("region", name="Text of the tokens")
    await expect(text).to_contain_text("<script>alert(1)</script>␛[31m\\u{202e}gnp.exe" + HEBREW + "&lt;b&gt;␀word⏎")
    drawn = text.locator("[data-place]")
    assert 0 < await drawn.count() < 3_000
    # What comes next is loaded while the end of what is there is in sight.
    panel = page.get_by_role("region", name="Tokens", exact=True)
    await text.focus()
    await page.keyboard.press("End")
    await expect(panel).to_contain_text(re.compile(r"first 8.000 are loaded"))
    await expect(panel.get_by_role("status")).to_contain_text("token 4000 ·")
    await page.keyboard.press("End")
    await expect(panel).not_to_contain_text("are loaded")
    await page.keyboard.press("End")
    await expect(panel.get_by_role("status")).to_contain_text("token 9002 ·")
    await expect(text.get_by_text("the end", exact=True)).to_be_in_viewport()
    assert 0 < await drawn.count() < 3_000


async def test_tokens_that_do_not_load_are_asked_for_again_by_hand_alone(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("404")
    job = await platform.new_job(suffix="halfway")
    await job.start()
    history = events(job.shape, until_step=2, is_ended=False)
    first = next(e for e in history if isinstance(e, RolloutDone) and e.key.split is Split.TRAIN)
    await job.write([*tokens_of(first), *history])
    asked: list[str] = []

    async def no_more(route: Route) -> None:
        asked.append(route.request.url)
        if "after=" in route.request.url:
            return await route.fulfill(status=404, json={"error": {"message": "They are gone."}})
        reply = await route.fetch()
        await route.fulfill(response=reply, json=await reply.json() | {"has_more": True, "last_id": "0"})

    await page.route("**/tokens?*", no_more)
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts/{first.trace_id}")
    await page.get_by_role("button", name="Tokens", exact=True).click()
    await page.get_by_role("region", name="Text of the tokens").focus()
    await page.keyboard.press("End")
    refused = page.get_by_role("alert").filter(has_text="They are gone.")
    await expect(refused).to_be_visible()
    for _ in range(5):
        await page.evaluate("fetch('/dashboard/session').then((reply) => reply.text())")
    assert len(asked) == 2
    async with page.expect_request(re.compile("after=")):
        await refused.get_by_role("button", name="Try again").click()
