"""Every setting is listed where an operator looks for it."""

import ast
import itertools
import re
from pathlib import Path

from rft.platform import settings as settings_module
from rft.platform.settings import Settings

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())


def test_every_setting_is_in_the_example_environment() -> None:
    listed = set(re.findall(r"^#?\s?(?:RFT_)?([A-Z_]+)=", (ROOT / "deploy" / "env.example").read_text(), re.MULTILINE))
    assert {name.upper() for name in Settings.model_fields} == listed


def test_every_setting_has_a_docstring() -> None:
    tree = ast.parse(Path(str(settings_module.__file__)).read_text())
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Settings").body
    for field, after in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(after, ast.Expr), f"{ast.unparse(field.target)} has no docstring"
            assert isinstance(after.value, ast.Constant)
