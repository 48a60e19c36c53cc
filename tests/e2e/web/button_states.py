"""Contrast of buttons in every state a pointer or the keyboard brings them into, all buttons of a page at once."""

import asyncio

from playwright.async_api import CDPSession, Locator, Page

BUTTONS = "button:enabled:visible, a.button:visible"
Ratio = tuple[str, float]
"""A button's text and its contrast."""
_EXAMINED, _AROUND = "data-examined", "data-around-examined"
_ATTRIBUTES = {"examined": _EXAMINED, "around": _AROUND}
_STATES: dict[str, tuple[list[str], list[str]]] = {
    "hover": (["hover"], ["hover"]),
    "pressed": (["hover", "active", "focus", "focus-within"], ["hover", "active", "focus-within"]),
    "focus": (["focus", "focus-visible", "focus-within"], ["focus-within"]),
}
"""What then holds of a button, and of the elements around it."""

_MARK_NEW = """
(all, { known, examined, around }) => {
  const seen = new Set(known), looks = [];
  for (const one of all) {
    const { color, backgroundColor, borderColor } = getComputedStyle(one);
    const within = [];
    for (let each = one; each !== null; each = each.parentElement) within.push(each);
    const classes = within.map((each) => `${each.localName}.${each.className}`);
    const look = [...classes, one.ariaPressed, color, backgroundColor, borderColor].join(" | ");
    if (seen.has(look)) continue;
    seen.add(look);
    looks.push(look);
    one.setAttribute(examined, "");
    for (const each of within.slice(1)) each.setAttribute(around, "");
  }
  return looks;
}
"""
"""Marks one button of each look that is not known. A look tells apart what may have other colours in its states."""

_RATIOS = """
(examined) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = new Map();
  const rgb = (color) => {
    if (!read.has(color)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      read.set(color, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return read.get(color);
  };
  const light = (color) => {
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb(color).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [...document.querySelectorAll(`[${examined}]`)].map((one) => {
    let behind = one;
    while (rgb(getComputedStyle(behind).backgroundColor)[3] < 255 && behind.parentElement) {
      behind = behind.parentElement;
    }
    const [front, back] = [light(getComputedStyle(one).color), light(getComputedStyle(behind).backgroundColor)];
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    return [one.innerText.trim(), ratio];
  });
}
"""

_COVERED_AND_UNMARKED = """
({ examined, around }) => {
  const covered = [];
  for (const one of document.querySelectorAll(`[${examined}]`)) {
    const isReached = (place) => {
      one.scrollIntoView({ block: place, inline: place, behavior: "instant" });
      const { left, top, width, height } = one.getClientRects()[0];
      return one.contains(document.elementFromPoint(left + width / 2, top + height / 2));
    };
    // What sticks to an edge may cover it in one place of the window, not in all.
    if (!["nearest", "end", "center", "start"].some(isReached)) covered.push(one.innerText.trim());
    one.removeAttribute(examined);
  }
  for (const one of document.querySelectorAll(`[${around}]`)) one.removeAttribute(around);
  return covered;
}
"""


async def check_states(within: Locator, examined: set[str]) -> None:
    """Contrast of its buttons, links that look like them too: at rest, under the pointer, pressed, with the focus.

    One of each look; those `examined` are left out and added to. A pointer must reach each of them.
    """
    page = within.page
    looks = await mark_new(within.locator(BUTTONS), examined)
    if not looks:
        return
    examined.update(looks)
    low = [
        f"{name}: {ratio:.2f}, {state}"
        for state, ratios in (await ratios_of_states(page)).items()
        for name, ratio in ratios
        if ratio < 4.5
    ]
    assert low == [], low
    covered = await page.evaluate(_COVERED_AND_UNMARKED, _ATTRIBUTES)
    assert covered == [], covered


async def mark_new(buttons: Locator, examined: set[str]) -> list[str]:
    """The looks among them that were not `examined`, one button of each marked."""
    return await buttons.evaluate_all(_MARK_NEW, {"known": list(examined), **_ATTRIBUTES})


async def marked_ratios(page: Page) -> list[Ratio]:
    """Of each marked button its text and its contrast, as it is now."""
    return [(name, ratio) for name, ratio in await page.evaluate(_RATIOS, _EXAMINED)]


async def ratios_of_states(page: Page) -> dict[str, list[Ratio]]:
    """At rest and in each state, which is forced; no state outlasts the session that forces it."""
    ratios = {"rest": await marked_ratios(page)}
    session = await page.context.new_cdp_session(page)
    await session.send("DOM.enable")
    await session.send("CSS.enable")
    root = (await session.send("DOM.getDocument", {"depth": 0}))["root"]["nodeId"]
    buttons, around = [await _marked(session, root, attribute) for attribute in (_EXAMINED, _AROUND)]
    # A button within a row that is a button is around another one, and has its own state all the same.
    around = [node for node in around if node not in buttons]
    for state, (of_buttons, of_around) in _STATES.items():
        forced = [*((node, of_buttons) for node in buttons), *((node, of_around) for node in around)]
        await asyncio.gather(
            *(
                session.send("CSS.forcePseudoState", {"nodeId": node, "forcedPseudoClasses": classes})
                for node, classes in forced
            )
        )
        ratios[state] = await marked_ratios(page)
    await session.detach()
    return ratios


async def _marked(session: CDPSession, root: int, attribute: str) -> list[int]:
    found = await session.send("DOM.querySelectorAll", {"nodeId": root, "selector": f"[{attribute}]"})
    return found["nodeIds"]
