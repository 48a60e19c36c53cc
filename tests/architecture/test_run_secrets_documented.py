"""`docs/training.md` names every secret that an evaluation of a checkpoint by hand may be given."""

import re
from pathlib import Path

from rft.core.spec import RunSecrets

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
BEGIN, END = "**The same for your own run.**", "\n## "


def test_the_page_names_each_key_of_the_secrets() -> None:
    page = (ROOT / "docs" / "training.md").read_text()
    section = page[page.index(BEGIN) :].split(END)[0]
    assert set(RunSecrets.model_fields) - set(re.findall(r"`(\w+)`", section)) == set()
