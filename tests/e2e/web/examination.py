"""Whether a page can be read and used: by assistive technology, on a phone, in the dark, in every state of a button."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Locator, Page, TimeoutError, expect

from tests.e2e.web.opened_pages import OpenPage, key_list, new_job, palette, sign_in_form
from tests.e2e.web.troubled_pages import refused_action

Examine = Callable[[OpenPage], Awaitable[None]]

SCREENS = os.environ.get("RFT_SCREENS")
"""A folder for a picture of every page in every scheme and size; none is taken without it."""
BUTTONS = "button:enabled:visible, a.button:visible"
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
                assert await serious_findings(page) == [], f"{scheme}, {size}"
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
    found = (await Axe().run(page)).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['target']} {one['nodes'][0]['failureSummary'][:300]}"
        for one in found
        if one["impact"] in SERIOUS
    ]


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


LOOKS = """
(all) => all.map((one) => {
  const { color, backgroundColor, borderColor } = getComputedStyle(one);
  const around = [];
  for (let each = one; each !== null; each = each.parentElement) around.push(`${each.localName}.${each.className}`);
  return [...around, one.ariaPressed, color, backgroundColor, borderColor].join(" | ");
})
"""
"""What tells each button apart from those whose states may have other colours."""


async def check_states(within: Locator, examined: set[str]) -> None:
    """Contrast of its buttons, links that look like them too: at rest, under the pointer, pressed, with the focus.

    One of each look; those `examined` are left out and added to.
    """
    buttons = within.locator(BUTTONS)
    for number, look in enumerate(await buttons.evaluate_all(LOOKS)):
        if look in examined:
            continue
        examined.add(look)
        button = buttons.nth(number)
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
