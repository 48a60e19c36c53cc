"""Every page can be read and used: by assistive technology, on a phone, in the dark, in every state of a button."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Locator, Page, expect

from tests.e2e.web.opened_pages import (
    OPENED,
    OpenPage,
    jobs_list,
    key_list,
    new_job,
    palette,
    question,
    running_job,
    sign_in_form,
)
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.troubled_pages import TROUBLED, refused_action
from tests.e2e.web.watched_page import PageProblems

SCREENS = Path(__file__).parents[3] / "var" / "screens"
PAGES = {**OPENED, **TROUBLED}
BUTTONS = "button:enabled:visible, a.button:visible"
SERIOUS = ("serious", "critical")
VIEWPORTS = {"wide": (1280, 800), "phone": (390, 844)}
PRESSED = {("light", "wide"), ("dark", "phone")}
"""Where buttons are tried: each scheme and each size once."""


@pytest_asyncio.fixture(loop_scope="session")
async def plain_page(browser: Browser, page_problems: PageProblems) -> AsyncIterator[Page]:
    """A page whose scheme and size the test chooses."""
    async with await browser.new_context() as context:
        await page_problems.attach(context)
        yield await context.new_page()
    assert page_problems.unexpected() == []


@pytest.fixture(scope="module")
def examined() -> set[str]:
    """Looks of buttons that were examined on one page or another."""
    return set()


@pytest.mark.parametrize("open_page", PAGES.values(), ids=PAGES)
async def test_no_serious_finding_and_nothing_off_the_screen(
    open_page: OpenPage, platform: Platform, plain_page: Page, page_problems: PageProblems, examined: set[str]
) -> None:
    page = plain_page
    page_problems.tolerated += PROVOKED.get(open_page, ())
    await open_page(platform, page)
    await expect(page.locator("main .skeleton")).to_have_count(0)
    SCREENS.mkdir(parents=True, exist_ok=True)
    has_dialog = await page.locator("dialog[open]").count() > 0  # Nothing behind it can be pressed.
    for scheme in ("light", "dark"):
        for name, (width, height) in VIEWPORTS.items():
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            await page.set_viewport_size({"width": width, "height": height})
            await page.screenshot(path=SCREENS / f"{open_page.__name__}-{name}-{scheme}.png", full_page=True)
            assert await page.evaluate("document.scrollingElement.scrollWidth") <= width, f"{scheme}, {name}"
            assert await serious_findings(page) == [], f"{scheme}, {name}"
            if (scheme, name) in PRESSED:
                within = page.locator("dialog[open]" if has_dialog else "#root")
                if open_page not in WITHOUT_BUTTONS:
                    await expect(within.locator(BUTTONS).first).to_be_visible()
                await check_states(within, examined)


WITHOUT_BUTTONS = (palette, key_list)
"""Dialogs that are left by keys."""
PROVOKED: dict[OpenPage, tuple[str, ...]] = {
    sign_in_form: ("401",),
    new_job: ("400",),  # of an order that is not whole yet
    refused_action: ("400",),
}


async def serious_findings(page: Page) -> list[str]:
    found = (await Axe().run(page)).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['target']} {one['nodes'][0]['failureSummary'][:300]}"
        for one in found
        if one["impact"] in SERIOUS
    ]


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


RATIO = """
(element) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb(color).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let behind = element;
  while (rgb(getComputedStyle(behind).backgroundColor)[3] < 255 && behind.parentElement) behind = behind.parentElement;
  const [one, other] = [light(getComputedStyle(element).color), light(getComputedStyle(behind).backgroundColor)];
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}
"""


LOOK = """
(one) => {
  const { color, backgroundColor, borderColor } = getComputedStyle(one);
  const around = [];
  for (let each = one; each !== null; each = each.parentElement) around.push(`${each.localName}.${each.className}`);
  return [...around, one.ariaPressed, color, backgroundColor, borderColor].join(" | ");
}
"""
"""What tells a button apart from those whose states may have other colours."""


async def check_states(within: Locator, examined: set[str]) -> None:
    """Contrast of its buttons, links that look like them too: at rest, under the pointer, pressed, with the focus.

    One of each look; those `examined` are left out and added to.
    """
    buttons = within.locator(BUTTONS)
    for button in await buttons.all():
        look = await button.evaluate(LOOK)
        if look in examined:
            continue
        examined.add(look)
        name = (await button.inner_text()).strip()
        ratios = {"rest": await button.evaluate(RATIO)}
        await button.hover()
        ratios["hover"] = await button.evaluate(RATIO)
        await within.page.mouse.down()
        ratios["pressed"] = await button.evaluate(RATIO)
        await within.page.mouse.move(0, 0)  # let go beside it, nothing is done
        await within.page.mouse.up()
        await button.focus()
        ratios["focus"] = await button.evaluate(RATIO)
        low = {state: ratio for state, ratio in ratios.items() if ratio < 4.5}
        assert low == {}, name


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
