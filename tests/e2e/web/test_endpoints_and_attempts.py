"""The customer's endpoints as the failure ledger knows them, and what a finished job leaves."""

import csv
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

from playwright.async_api import Page, expect

from rft.core.attempt import Attempt
from rft.core.events import AttemptsMade, RolloutBegan, RolloutDone, RolloutsBegan, StepDone, TrainEvent
from rft.core.failure import Failure, FailureCode
from rft.core.grade import Grade
from rft.core.messages import Message, Role
from tests.e2e.web.run_records import JUDGE, events, step_events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems, shown, sign_in


def ledger(history: list[TrainEvent]) -> list[Attempt]:
    return [attempt for event in history if isinstance(event, AttemptsMade) for attempt in event.attempts]


async def test_every_endpoint_has_its_attempts_and_errors(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="shaky", failing_share=0.3)
    await job.start()
    history = events(job.shape, until_step=4, is_ended=False)
    await job.write(history)
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    panel = page.locator("section", has=page.locator("#endpoints"))
    await expect(panel.locator("header")).to_contain_text("steps 0 to 4")
    rows = panel.locator("tbody tr")
    await expect(rows).to_have_count(4)
    row = rows.filter(has_text="cat")
    tries = [attempt for attempt in ledger(history) if attempt.endpoint == "cat"]
    await expect(row).to_contain_text(str(len(tries)))
    for code, times in Counter(attempt.code for attempt in tries if attempt.code).items():
        await expect(row.locator(".errors")).to_contain_text(re.compile(rf"{code.replace('_', ' ')} .* \({times}\)"))
    await expect(row.locator(".track > span")).to_have_count(3)
    await expect(rows.filter(has_text="answer_credit")).to_contain_text("0 %")

    last = next(attempt for attempt in reversed(tries) if attempt.code)
    await row.get_by_role("link").click()
    await expect(page).to_have_url(f"{platform.url}/jobs/{job.id}/rollouts/{last.trace_id}")


async def test_a_tool_that_refuses_nearly_every_call_is_told_in_words(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="one-letter-wrong")
    await job.start()
    history = events(job.shape, until_step=2, is_ended=False)
    refused = [
        event.model_copy(update={"attempts": tuple(_answered_404(one) for one in event.attempts)})
        if isinstance(event, AttemptsMade)
        else event
        for event in history
    ]
    await job.write(refused)
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.get_by_role("alert")).to_contain_text("search answered 404 to nearly every call: check its URL.")
    row = page.locator("section", has=page.locator("#endpoints")).locator("tbody tr", has_text="search")
    await expect(row).to_contain_text("100 %")
    await expect(row.locator(".errors")).to_contain_text("answered 404")
    await expect(row.get_by_role("link")).to_have_text("404")
    await row.get_by_role("link").click()
    answers = page.locator(".call .attempts li", has_text="404")
    await expect(answers.first.locator(".refused")).to_be_visible()


def _answered_404(attempt: Attempt) -> Attempt:
    return replace(attempt, status=404, code=None) if attempt.endpoint == "search" else attempt


async def test_a_trace_shows_every_attempt_and_every_score(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="tried", failing_share=0.3)
    await job.start()
    history = events(job.shape, until_step=2, is_ended=False)
    await job.write(history)
    done = next(event for event in history if isinstance(event, RolloutDone) and _failed_by(event, 503))
    tries = [a for a in ledger(history) if a.trace_id == done.trace_id and a.code is FailureCode.SERVER_ERROR]
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts/{done.trace_id}")
    lines = page.locator(".call").last.locator(".attempts li")
    await expect(lines).to_have_count(len(tries))
    await expect(lines.last).to_contain_text(f"attempt {len(tries)}")
    await expect(lines.last).to_contain_text("503 server error")
    await expect(lines.last).to_contain_text(f"{tries[-1].sent_bytes} B sent")

    done = next(event for event in history if isinstance(event, RolloutDone) and isinstance(event.outcome, Grade))
    assert isinstance(done.outcome, Grade)
    await page.goto(f"{platform.url}/jobs/{job.id}/rollouts/{done.trace_id}")
    outcome = page.get_by_role("region", name="Outcome")
    for name, score in done.outcome.scores.items():
        await expect(outcome.locator(".score", has_text=name)).to_contain_text(shown(score, 2))
    await expect(outcome).to_contain_text(f"Judge {JUDGE}")
    await expect(outcome).to_contain_text("812 tokens in, 34 out")
    calls = page.get_by_role("region", name="Grading and callbacks")
    await expect(calls).to_contain_text("answer_credit")
    await expect(calls.locator(".attempts li")).to_have_count(1)


def _failed_by(done: RolloutDone, status: int) -> bool:
    return isinstance(done.outcome, Failure) and done.outcome.status == status


async def test_a_call_of_the_dataset_row_shows_no_attempts_of_one_with_its_id(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="ids-again")
    await job.start()
    history = events(job.shape, until_step=1, is_ended=False)
    place, done = next((i, event) for i, event in enumerate(history) if isinstance(event, RolloutDone))
    assert isinstance(done, RolloutDone)
    begin, made = done.messages[:2], done.messages[2:]
    asked = made[0].tool_calls[0]
    row = (
        Message(role=Role.ASSISTANT, content="", tool_calls=(asked.model_copy(update={"arguments": "{}"}),)),
        Message(role=Role.TOOL, content="an example", tool_call_id=asked.call_id, name=asked.name),
        Message(role=Role.USER, content="Now you."),
    )
    history[place] = done.model_copy(update={"messages": (*begin, *row, *made)})
    await job.write(history)
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts/{done.trace_id}")
    example, first = page.locator(".call").nth(0), page.locator(".call").nth(1)
    await expect(first.locator(".attempts li")).not_to_have_count(0)
    await expect(example).to_contain_text("an example")
    await expect(example.locator(".attempts li")).to_have_count(0)


async def test_a_rollout_under_way_shows_its_calls(platform: Platform, page: Page, page_problems: PageProblems) -> None:
    page_problems.tolerated.append("404")
    job = await platform.new_job(suffix="under-way")
    await job.start()
    finished = step_events(job.shape, 1)
    made = next(event for event in finished if isinstance(event, AttemptsMade))
    await job.write([*events(job.shape, until_step=0, is_ended=False), made])
    trace_id = made.attempts[0].trace_id
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts/{trace_id}")
    await expect(page.get_by_text("This rollout has not ended yet")).to_be_visible()
    await expect(page.get_by_role("region", name="Calls").locator(".attempts li").first).to_contain_text("attempt 1")

    await job.write([event for event in finished if not isinstance(event, AttemptsMade)])
    await page.get_by_role("button", name="Look again").click()
    await expect(page.get_by_role("region", name="Outcome")).to_be_visible()


async def test_a_conversation_under_way_is_shown_once_it_has_ended(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="begun")
    await job.start()
    finished = step_events(job.shape, 1)
    done = next(event for event in finished if isinstance(event, RolloutDone))
    began = RolloutBegan(done.key, done.trace_id, done.policy_version)
    await job.write([*events(job.shape, until_step=0, is_ended=False), RolloutsBegan(rollouts=(began,))])
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts/{done.trace_id}")
    await expect(page.get_by_text("This rollout has not ended yet")).to_be_visible()
    await job.write(finished)
    await expect(page.get_by_role("region", name="Outcome")).to_be_visible()


async def test_a_finished_job_shows_its_usage_and_gives_its_figures(
    platform: Platform, page: Page, page_problems: PageProblems, tmp_path: Path
) -> None:
    job = await platform.new_job(suffix="done", failing_share=0.3, total_steps=4)
    await job.start()
    history = events(job.shape)
    await job.write(history)
    records = [event for event in history if isinstance(event, StepDone)]
    last = records[-1].train
    assert last is not None
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    panel = page.locator("section", has=page.locator("#usage"))
    rollouts = sum(isinstance(event, RolloutDone) for event in history)
    await expect(panel.locator(".facts > div", has_text="Rollouts")).to_contain_text(str(rollouts))
    await expect(panel).to_contain_text(f"Judge {JUDGE}")
    zero = page.locator("figure", has_text="Reward").first.locator("li", has_text="Train, failures as 0")
    await expect(zero.locator("output")).to_have_text(shown(last.reward_mean_if_failures_were_zero))
    scores = page.locator("figure", has_text="mean by grader")
    await expect(scores.locator("li", has_text="format").locator("output")).to_have_text(
        shown(last.grader_scores_mean["format"])
    )

    async with page.expect_download() as waiting:
        await panel.get_by_role("button", name="Download results").click()
    download = await waiting.value
    assert download.suggested_filename == f"{job.id}.csv"
    await download.save_as(tmp_path / "results.csv")
    with (tmp_path / "results.csv").open(newline="") as file:
        assert [row["step"] for row in csv.DictReader(file)] == [str(record.step) for record in records]
