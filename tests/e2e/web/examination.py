"""Whether a page can be read and used: by assistive technology, on a phone, in the dark, in every state of a button."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, TimeoutError, expect

from tests.e2e.web.button_states import BUTTONS, check_states
from tests.e2e.web.opened_pages import OpenPage, key_list, new_job, palette, sign_in_form
from tests.e2e.web.troubled_pages import refused_action

Examine = Callable[[OpenPage], Awaitable[None]]

SCREENS = os.environ.get("RFT_SCREENS")
"""A folder for a picture of every page in every scheme and size; none is taken without it."""
SERIOUS = ("serious", "critical")
VIEWPORTS = {"wide": (1280, 800), "phone": (390, 844)}
EXAMINED = {("light", "wide"), ("dark", "phone")}
"""Where assistive technology and buttons are tried: each scheme and each size once."""
WITHOUT_BUTTONS = (palette, key_list)
"""Dialogs that are left by keys."""
PROVOKED: dict[OpenPage, tuple[str, ...]] = {
    sign_in_form: ("401",),
    new_job: ("400",),  # of an order that is not whole yet
    refused_action: ("400",),
}
"""What a page's console says because of what is done to it."""


async def check_page(page: Page, open_page: OpenPage, examined: set[str]) -> None:
    """What `open_page` has opened: nothing off the screen in both schemes and sizes, and the rest in two pairs of them.

    Buttons of looks that were `examined` are left out, those of others added to them.
    """
    await expect(page.locator("main .skeleton")).to_have_count(0)
    has_dialog = await page.locator("dialog[open]").count() > 0  # Nothing behind it can be pressed.
    for scheme in ("light", "dark"):
        for size, (width, height) in VIEWPORTS.items():
            await page.emulate_media(color_scheme=scheme)
            await page.set_viewport_size({"width": width, "height": height})
            if SCREENS is not None:
                picture = Path(SCREENS, f"{open_page.__name__}-{size}-{scheme}.png")
                await page.screenshot(path=picture, full_page=True)
            await stays_within(page, width, f"{scheme}, {size}")
            if (scheme, size) in EXAMINED:
                findings = await serious_findings(page)
                assert not findings, f"{scheme}, {size}: {findings}"
                within = page.locator("dialog[open]" if has_dialog else "#root")
                if open_page not in WITHOUT_BUTTONS:
                    await expect(within.locator(BUTTONS).first).to_be_visible()
                await check_states(within, examined)


async def stays_within(page: Page, width: int, where: str) -> None:
    """Nothing is off the screen; charts follow a new width with the browser's next frame, not at once."""
    try:
        await page.wait_for_function("(width) => document.scrollingElement.scrollWidth <= width", arg=width)
    except TimeoutError as late:
        raise AssertionError(where) from late


async def serious_findings(page: Page) -> list[str]:
    # What passes is asked for one example of each rule only: a selector of every element takes longer than the rules.
    found = (await Axe().run(page, options={"resultTypes": ["violations"]})).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['target']} {one['nodes'][0]['failureSummary'][:300]}"
        for one in found
        if one["impact"] in SERIOUS
    ]
