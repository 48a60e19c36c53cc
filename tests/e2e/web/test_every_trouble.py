"""Pages in trouble can be read and used as well; a file of their own, as each page takes seconds."""

import pytest
from playwright.async_api import Page

from tests.e2e.web.examination import examine
from tests.e2e.web.opened_pages import OpenPage
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.troubled_pages import TROUBLED, refused_action
from tests.e2e.web.watched_page import PageProblems

PROVOKED: dict[OpenPage, tuple[str, ...]] = {refused_action: ("400",)}


@pytest.mark.parametrize("open_page", TROUBLED.values(), ids=TROUBLED)
async def test_no_serious_finding_and_nothing_off_the_screen(
    open_page: OpenPage, platform: Platform, plain_page: Page, page_problems: PageProblems, examined: set[str]
) -> None:
    page_problems.tolerated += PROVOKED.get(open_page, ())
    await open_page(platform, plain_page)
    await examine(plain_page, open_page.__name__, examined)
