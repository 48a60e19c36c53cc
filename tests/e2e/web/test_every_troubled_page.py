"""Pages in trouble can be read and used as well; a file of their own, as each page takes seconds."""

import pytest

from tests.e2e.web.examination import Examine
from tests.e2e.web.opened_pages import OpenPage
from tests.e2e.web.troubled_pages import TROUBLED


@pytest.mark.parametrize("open_page", TROUBLED.values(), ids=TROUBLED)
async def test_no_serious_finding_and_nothing_off_the_screen(open_page: OpenPage, examine: Examine) -> None:
    await examine(open_page)
