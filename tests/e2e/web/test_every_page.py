"""Every page can be read and used: by assistive technology, on a phone, in the dark, in every state of a button."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.e2e.web.button_states import mark_new, marked_ratios, ratios_of_states
from tests.e2e.web.examination import Examine
from tests.e2e.web.opened_pages import (
    OPENED,
    OpenPage,
    jobs_list,
    question,
    running_job,
)
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import sign_in


@pytest.mark.parametrize("open_page", OPENED.values(), ids=OPENED)
async def test_no_serious_finding_and_nothing_off_the_screen(open_page: OpenPage, examine: Examine) -> None:
    await examine(open_page)


async def test_states_that_are_forced_upon_buttons_look_as_a_pointer_and_the_keyboard_make_them(
    platform: Platform, page: Page
) -> None:
    await sign_in(page, platform.url, platform.key)
    button = page.get_by_role("button", name="Sign out")
    assert await mark_new(button, set())
    forced = await ratios_of_states(page)
    real = {"rest": await marked_ratios(page)}
    await button.hover()
    real["hover"] = await marked_ratios(page)
    await page.mouse.down()
    real["pressed"] = await marked_ratios(page)
    await page.mouse.move(0, 0)  # let go beside it, nothing is done
    await page.mouse.up()
    await button.focus()
    real["focus"] = await marked_ratios(page)
    assert forced == real


async def test_a_phone_shows_what_one_watches_for(platform: Platform, page: Page) -> None:
    await page.set_viewport_size({"width": 390, "height": 844})
    await running_job(platform, page)
    left = page.get_by_text(re.compile(r"about .+ left, done at ")).last
    for seen in (page.get_by_role("button", name="Cancel"), page.get_by_role("progressbar").first, left):
        box = await seen.bounding_box()
        assert box is not None
        assert box["width"] > 40
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


async def test_a_phone_shows_a_job_in_one_line(platform: Platform, page: Page) -> None:
    await page.set_viewport_size({"width": 390, "height": 844})
    await jobs_list(platform, page)
    await expect(page.locator("tbody tr", has_text="first").get_by_text("4 / 8")).to_be_visible()
    assert await page.locator(".panel > .scroll").evaluate("(one) => one.scrollWidth <= one.clientWidth")


async def test_a_question_begins_with_doing_nothing_and_escape_takes_it_back(platform: Platform, page: Page) -> None:
    await question(platform, page)
    asked = page.get_by_role("alertdialog")
    await expect(asked.get_by_role("button", name="Keep it")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(asked).to_be_hidden()
    await page.get_by_role("button", name="Cancel").click()
    await page.keyboard.press("Enter")
    await expect(asked).to_be_hidden()
    await expect(page.locator(".badge").first).to_have_text("running")


async def test_a_row_is_a_link_that_opens_another_tab(platform: Platform, page: Page) -> None:
    await jobs_list(platform, page)
    box = await page.locator("tbody tr", has_text="first").locator("td").nth(2).bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    async with page.context.expect_page() as opened:
        await page.keyboard.down("Control")
        await page.mouse.click(*middle)
        await page.keyboard.up("Control")
    tab = await opened.value
    await expect(tab).to_have_url(re.compile(r"/jobs/ftjob-"))
    await expect(page).to_have_url(f"{platform.url}/")
    await page.mouse.click(*middle)
    await expect(page).to_have_url(re.compile(r"/jobs/ftjob-"))
