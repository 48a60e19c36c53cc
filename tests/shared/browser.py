"""The browser that looks at pages, for tests and benchmarks alike."""

import shutil

from playwright.async_api import Browser, FloatRect, Page, Playwright

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is what Playwright itself takes where nobody looks on: the same engine, without a browser's windows, for a
quarter less of the processor."""
_OF_PLAYWRIGHT = (
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
)
"""Left out by Playwright too, whose list ours takes the place of (`chromiumSwitches`, Playwright 1.65)."""
_SPARE_RENDERER = "SpareRendererForSitePerProcess"
"""A process in advance for the next page: one in three is never used where each page has a window of its own."""
_OF_THE_ADDRESS_BAR = ("WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "WebUIOmniboxPopup")
"""A window's address bar loads a page of its own of 400 scripts, for a second and a half of one core, beside whatever
the window shows (Chromium 156). Each new page is a window here, where a user opens a tab."""


def browser_path() -> str | None:
    """Where the browser is; None where there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


async def launched_browser(playwright: Playwright, path: str) -> Browser:
    """A browser that shows pages and does nothing else beside them."""
    left_out = ",".join((*_OF_PLAYWRIGHT, *_OF_THE_ADDRESS_BAR, _SPARE_RENDERER))
    return await playwright.chromium.launch(executable_path=path, args=[f"--disable-features={left_out}"])


async def draw_out(page: Page, box: FloatRect, begin: float, end: float) -> None:
    """Draws out a part of a chart with the mouse, from one share of its width to another."""
    middle = box["y"] + box["height"] / 2
    await page.mouse.move(box["x"] + box["width"] * begin, middle)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * end, middle, steps=4)
    await page.mouse.up()
