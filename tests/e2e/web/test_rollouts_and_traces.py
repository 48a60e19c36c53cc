"""From the table of rollouts to one trace and its neighbours."""

import json
import re

import httpx
import pytest
from playwright.async_api import Locator, Page, expect

from rft.core.events import RolloutDone, RunStarted
from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.messages import Role
from rft.core.rollout import Split
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_platform import Platform, SeededJob
from tests.e2e.web.watched_page import shown, sign_in


async def finished_job(platform: Platform, *, failing_share: float = 0.2) -> tuple[SeededJob, list[RolloutDone]]:
    job = await platform.new_job(suffix="traces", failing_share=failing_share, total_steps=4)
    await job.start()
    history = events(job.shape)
    await job.write(history)
    return job, [event for event in history if isinstance(event, RolloutDone)]


def trace_url(platform: Platform, job: SeededJob, done: RolloutDone) -> str:
    return f"{platform.url}/jobs/{job.id}/rollouts/{done.trace_id}"


async def test_filters_live_in_the_address(platform: Platform, page: Page) -> None:
    job, rollouts = await finished_job(platform)
    excluded = [done for done in rollouts if isinstance(done.outcome, Failure)]
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    panel = page.locator("section", has=page.locator("#rollouts"))
    rows = panel.locator("tbody tr")
    await expect(rows).to_have_count(25)
    await panel.get_by_role("button", name="Load more").click()
    await expect(rows).to_have_count(50)

    await panel.get_by_role("button", name="Excluded").click()
    await expect(rows).to_have_count(len(excluded))
    await expect(page).to_have_url(re.compile(r"\?outcome=failed$"))
    assert set(await rows.locator(".muted", has_text="excluded").all_text_contents()) == {"excluded"}

    await page.goto(f"{platform.url}/jobs/{job.id}?split=valid&step=2")
    await expect(rows).to_have_count(job.shape.valid_rows)
    await expect(panel.get_by_role("button", name="Validation")).to_have_attribute("aria-pressed", "true")
    await panel.get_by_label("Step").fill("999")
    await expect(panel.get_by_text("No rollout matches")).to_be_visible()


async def test_a_trace_reads_message_by_message(platform: Platform, page: Page) -> None:
    job, rollouts = await finished_job(platform)
    done = next(
        done
        for done in rollouts
        if isinstance(done.outcome, Grade) and sum(done.tool_errors.values()) and done.tool_calls.get("list")
    )
    assert isinstance(done.outcome, Grade)
    await sign_in(page, platform.url, platform.key)
    await expect(page.locator("table.jobs")).to_be_visible()
    await page.goto(trace_url(platform, job, done))
    calls = page.locator(".call")
    await expect(calls).to_have_count(sum(done.tool_calls.values()))
    await expect(page.locator(".turn-number").last).to_have_text(f"Turn {done.turns}")
    await expect(page.locator(".message.user")).to_contain_text(done.messages[1].content)
    await expect(page.locator(".message.assistant").last).to_contain_text(done.messages[-1].content)
    failed = page.locator(".call.is-error").first
    await expect(failed).to_contain_text("error shown to the model")
    await expect(failed).to_contain_text("Error:")
    await expect(page.locator(".reward-figure")).to_contain_text(shown(done.outcome.reward))
    for name, score in done.outcome.scores.items():
        await expect(page.locator(".score", has_text=name)).to_contain_text(shown(score, 2))

    page_call = calls.filter(has=page.locator("strong", has_text="cat")).last
    output = next(m.content for m in reversed(done.messages) if m.role is Role.TOOL and m.name == "cat")
    await expect_folded(page_call, output)


@pytest.mark.parametrize("is_secure", [True, False])
async def test_a_trace_is_copied_also_where_browsers_have_no_clipboard(
    platform: Platform, page: Page, *, is_secure: bool
) -> None:
    """As over plain http from another machine."""
    job, rollouts = await finished_job(platform)
    done = next(done for done in rollouts if done.tool_calls.get("list"))
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.add_init_script(STAYS_COPIED)
    await sign_in(page, platform.url, platform.key)
    if not is_secure:
        await page.add_init_script("Object.defineProperty(Navigator.prototype, 'clipboard', { value: undefined })")
    await page.goto(trace_url(platform, job, done))
    copied = {label: await copied_by(page, label) for label in ("Copy the rollout as JSON", COPY_MESSAGES)}
    assert json.loads(copied["Copy the rollout as JSON"])["id"] == done.trace_id
    assert [message["role"] for message in json.loads(copied[COPY_MESSAGES])] == [
        message.role.value for message in done.messages
    ]


COPY_MESSAGES = "Copy the conversation as SDK messages"
STAYS_COPIED = """
  const later = setTimeout;
  globalThis.setTimeout = (run, ms, ...rest) => later(run, ms === 1500 ? 600_000 : ms, ...rest);
"""
"""A button says for a moment (`COPIED_MS`) that it has copied: here for as long as anybody looks."""


async def copied_by(page: Page, label: str) -> str:
    """What the button put into the clipboard: pasted by hand, as the page itself may have no way to read it."""
    button = page.get_by_role("button", name=label)
    await button.click()
    await expect(button).to_have_text("copied")
    await expect(button).to_be_focused()
    field = "const field = document.body.appendChild(document.createElement('textarea')); field.id = 'pasted';"
    await page.evaluate(f"() => {{ {field} field.focus(); }}")
    await page.keyboard.press("Control+v")
    await expect(page.locator("#pasted")).not_to_have_value("")
    pasted = await page.locator("#pasted").input_value()
    await page.evaluate("() => document.querySelector('#pasted').remove()")
    return pasted


async def expect_folded(call: Locator, output: str) -> None:
    """A long output shows its beginning, and the rest on demand."""
    last_line = output.splitlines()[-1]
    await expect(call).to_contain_text(output.splitlines()[0])
    await expect(call).not_to_contain_text(last_line)
    await call.get_by_role("button", name=re.compile("more lines")).click()
    await expect(call).to_contain_text(last_line)
    await call.get_by_role("button", name="Show less").click()
    await expect(call).not_to_contain_text(last_line)


SEEN_TO_ITS_END = """async () => {
  const shown = () => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));
  for (const turn of document.querySelectorAll("li.turn")) {
    turn.scrollIntoView({ behavior: "instant" });
    await shown();
  }
  scrollTo({ top: 0, behavior: "instant" });
  await shown();
}"""


async def test_a_trace_that_was_read_in_a_wide_window_fits_a_narrow_one(platform: Platform, page: Page) -> None:
    """As on a tablet that is turned: browsers remember the width of turns out of sight."""
    job, rollouts = await finished_job(platform)
    longest = max(rollouts, key=lambda done: len(done.messages))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts/{longest.trace_id}")
    await expect(page.locator("li.turn").last).to_be_attached()
    await page.evaluate(SEEN_TO_ITS_END)
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.wait_for_function("() => document.scrollingElement.scrollWidth <= 390")


async def test_the_timeline_has_each_turn_call_and_grade(platform: Platform, page: Page) -> None:
    job, rollouts = await finished_job(platform)
    done = next(done for done in rollouts if done.tool_calls.get("cat") and isinstance(done.outcome, Grade))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts/{done.trace_id}")
    line = page.get_by_role("region", name="Timeline")
    turns = line.get_by_role("img", name="policy:").locator(".bar-sampling")
    await expect(turns).to_have_count(done.turns)
    await expect(turns.last).to_have_attribute("title", re.compile(rf"turn {done.turns}, 28 tokens, "))
    for name in done.tool_calls:
        await expect(line.get_by_role("img", name=f"{name}:").locator(".bar-tool").first).to_be_visible()
    await expect(line.get_by_role("img", name="answer_credit:").locator(".bar-grading")).to_have_count(1)
    places = [await bar.bounding_box() for bar in await turns.all()]
    lefts = [place["x"] for place in places if place is not None]
    assert lefts == sorted(lefts)
    assert len(set(lefts)) == done.turns


async def test_an_excluded_rollout_is_blamed_and_never_zero(platform: Platform, page: Page) -> None:
    job, rollouts = await finished_job(platform)
    done = next(done for done in rollouts if isinstance(done.outcome, Failure) and done.outcome.status == 503)
    assert isinstance(done.outcome, Failure)
    await sign_in(page, platform.url, platform.key)
    await expect(page.locator("table.jobs")).to_be_visible()
    await page.goto(trace_url(platform, job, done))
    outcome = page.get_by_role("region", name="Outcome")
    await expect(outcome).to_contain_text("excluded")
    await expect(outcome).to_contain_text("The tool endpoint's fault")
    await expect(outcome).to_contain_text(done.outcome.message)
    await expect(outcome).to_contain_text("503")
    await expect(outcome.locator(".reward-figure")).to_have_count(0)
    await expect(page.locator(".call").last).to_contain_text("the rollout broke off here")


async def test_neighbours_in_the_group_are_one_key_away(platform: Platform, page: Page) -> None:
    job, rollouts = await finished_job(platform)
    first, second, *_ = (done for done in rollouts if done.key.split is Split.TRAIN)
    await sign_in(page, platform.url, platform.key)
    await expect(page.locator("table.jobs")).to_be_visible()
    await page.goto(trace_url(platform, job, first))
    await expect(page.locator(".group a")).to_have_count(job.shape.group_size)
    await expect(page.locator(".group a[aria-current=page]")).to_have_count(1)
    await page.get_by_role("link", name="Next →").click()
    await expect(page).to_have_url(trace_url(platform, job, second))
    # Keys do nothing before the rollout itself is there: the address changes at once.
    await expect(page.get_by_role("heading", level=1)).to_contain_text("#2")
    await expect(page.locator(".group a[aria-current=page]")).to_have_count(1)
    await expect(page.get_by_role("link", name="← Previous")).to_be_visible()
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.press("ArrowLeft")
    await expect(page).to_have_url(trace_url(platform, job, first))


async def test_a_validation_rollout_has_its_step_for_neighbours(platform: Platform, page: Page) -> None:
    job, rollouts = await finished_job(platform)
    done = next(done for done in rollouts if done.key.split is Split.VALID)
    await sign_in(page, platform.url, platform.key)
    await expect(page.locator("table.jobs")).to_be_visible()
    await page.goto(trace_url(platform, job, done))
    await expect(page.locator(".group a")).to_have_count(job.shape.valid_rows)
    await page.get_by_role("link", name="step 0, validation").click()
    await expect(page).to_have_url(f"{platform.url}/jobs/{job.id}/rollouts?split=valid&step=0")


async def job_with_rows(platform: Platform, *, suffix: str) -> SeededJob:
    """A running job whose training rows can be read."""
    async with httpx.AsyncClient(
        base_url=platform.url, headers={"authorization": f"Bearer {platform.key}"}, timeout=60.0
    ) as customer:
        rows = [{"messages": [{"role": "user", "content": "?"}], "reference": f"assets: {n}"} for n in range(64)]
        content = "".join(json.dumps(row) + "\n" for row in rows)
        made = await customer.post("/v1/files", data={"purpose": "fine-tune"}, files={"file": ("rows.jsonl", content)})
    job = await platform.new_job(suffix=suffix)
    await job.start()
    async with platform.database.transaction() as connection:
        await connection.execute("update jobs set training_file = %s where id = %s", (made.json()["id"], job.id))
    return job


async def test_a_trace_says_why_its_reward_is_what_it_is(platform: Platform, page: Page) -> None:
    """The reference stands beside the answer, and what the grader said of it."""
    job = await job_with_rows(platform, suffix="why")
    history = events(job.shape, until_step=1, is_ended=False)
    done = next(
        event
        for event in history
        if isinstance(event, RolloutDone) and event.key.split is Split.TRAIN and isinstance(event.outcome, Grade)
    )
    assert isinstance(done.outcome, Grade)
    asked = json.dumps({"model": "judge-small", "messages": [{"role": "user", "content": "Is it 64?\nSay why."}]})
    said = {"request": asked, "reply": '{"score": 0, "why": "assets, not debts"}', "parts": {}}
    graded = done.outcome.model_copy(update=said)
    told = done.model_copy(update={"outcome": graded})
    await job.write([told if event is done else event for event in history])
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts/{done.trace_id}")
    await expect(page.get_by_role("region", name="Row", exact=True)).to_contain_text(f"assets: {done.key.row_index}")
    await expect(page.get_by_role("region", name="Outcome")).to_contain_text('"why": "assets, not debts"')
    request = page.get_by_role("region", name="What answer_credit was sent")
    await expect(request).to_be_hidden()
    await page.get_by_text("What answer_credit was sent").click()
    await expect(request).to_have_text("[user]\nIs it 64?\nSay why.", use_inner_text=True)
    shown = page.get_by_role("region", name="Sample")
    await expect(shown).to_be_hidden()
    await page.get_by_text("What graders were shown of the answer").click()
    await expect(shown).to_contain_text('"output_text"')


async def test_an_abandoned_rollout_that_had_ended_is_shown_whole(platform: Platform, page: Page) -> None:
    job = await job_with_rows(platform, suffix="resumed")
    history = events(job.shape, until_step=3, is_ended=False)
    await job.write(history)
    done = next(
        one for one in history if isinstance(one, RolloutDone) and one.key.split is Split.TRAIN and one.key.step == 3
    )
    await job.write([RunStarted(resumed_from_step=2, total_steps=8, pid=1)])
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts/{done.trace_id}")
    await expect(page.get_by_text("This rollout was abandoned")).to_be_visible()
    await expect(page.get_by_role("region", name="Row", exact=True)).to_contain_text(f"assets: {done.key.row_index}")
    await expect(page.locator(".banner")).to_have_count(0)
