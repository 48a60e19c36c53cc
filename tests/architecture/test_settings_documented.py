"""Every setting is listed where an operator looks for it, with its default."""

import ast
import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rft.gateway_service.settings import ServiceSettings
from rft.platform import settings as settings_module
from rft.platform.settings import Settings

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
EXAMPLES: dict[str, type[BaseModel]] = {"env.example": Settings, "gateways.env.example": ServiceSettings}
NOT_SETTINGS = {"GATEWAY_HOST"}
"""What only the unit of systemd reads."""


def listed(page: str) -> dict[str, str]:
    """The settings of an example environment with what stands behind each."""
    text = (ROOT / "deploy" / page).read_text()
    return dict(re.findall(r"^#?\s?(?:RFT_)?([A-Z_]+)=(.*)$", text, re.MULTILINE))


def as_written(field: FieldInfo) -> str:
    """A default as an environment has it; one that hangs on the machine is left empty."""
    default: Any = {} if field.default_factory is dict else None if field.default_factory else field.default
    if default is None:
        return ""
    return default if isinstance(default, str) else json.dumps(default)


@pytest.mark.parametrize("page", EXAMPLES)
def test_every_setting_is_in_the_example_environment_with_its_default(page: str) -> None:
    fields = EXAMPLES[page].model_fields
    told = {name: value for name, value in listed(page).items() if name not in NOT_SETTINGS}
    assert told == {name.upper(): as_written(field) for name, field in fields.items()}


@pytest.mark.parametrize("page", EXAMPLES)
def test_an_example_environment_whose_lines_all_hold_is_that_of_the_defaults(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: type[Any] = EXAMPLES[page]
    for name in [name for name in os.environ if name.startswith("RFT_")]:
        monkeypatch.delenv(name)
    plain = kind()
    for name, value in listed(page).items():
        monkeypatch.setenv(f"RFT_{name}", value)
    assert kind() == plain


def test_the_gateways_page_tells_each_setting_of_a_service_with_its_default() -> None:
    page = (ROOT / "docs" / "gateways.md").read_text()
    told = {
        name: value.strip("` ") for name, value in re.findall(r"^\| `RFT_([A-Z_]+)` \|([^|]*)\|", page, re.MULTILINE)
    }
    written = {name.upper(): as_written(field) for name, field in ServiceSettings.model_fields.items()}
    assert told == {name: value.removesuffix(".0") for name, value in written.items()}


def test_every_setting_has_a_docstring() -> None:
    tree = ast.parse(Path(str(settings_module.__file__)).read_text())
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Settings").body
    for field, after in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(after, ast.Expr), f"{ast.unparse(field.target)} has no docstring"
            assert isinstance(after.value, ast.Constant)
