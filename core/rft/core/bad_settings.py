"""What is wrong with the environment that settings are read from: one line, with variables and no values. Pure."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from pydantic import AliasChoices, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsError

from rft.core.errors import RftError


class BadSetting(RftError):
    """The environment sets something to what it cannot be; the message names the variables."""


def bad_setting(settings: type[BaseSettings], problem: SettingsError | ValidationError) -> BadSetting:
    """Why these settings, whose variables begin with `RFT_`, could not be read."""
    if isinstance(problem, ValidationError):
        return BadSetting("; ".join(_message(settings, error) for error in problem.errors()))
    # Raised where a variable that is to be JSON is none; its words name the field and no variable.
    named = (_variable(settings, field) for field in settings.model_fields if f'"{field}"' in str(problem))
    return BadSetting(f"{next(named, 'a setting')} is wrong: it is not JSON ({problem.__cause__ or problem})")


def _message(settings: type[BaseSettings], error: ErrorDetails) -> str:
    """Without the value, which may be a secret."""
    name, *inside = map(str, error["loc"])
    variable = _variable(settings, name) if name in settings.model_fields else name.upper()
    where = f" (at '{'.'.join(inside)}')" if inside else ""
    return f"{variable} is wrong{where}: {error['msg'][0].lower()}{error['msg'][1:]}"


def _variable(settings: type[BaseSettings], field: str) -> str:
    """The environment variable that sets it."""
    is_bare = isinstance(settings.model_fields[field].validation_alias, AliasChoices)
    return field.upper() if is_bare else f"RFT_{field.upper()}"


def unknown_variables(
    environment: Iterable[str], *settings: type[BaseSettings], others: Collection[str] = ()
) -> list[str]:
    """A sentence for each variable that looks like one of these settings, or of `others` that are read, and is none."""
    known = {_variable(each, field) for each in settings for field in each.model_fields} | {*others}
    return [_unknown(name, known) for name in sorted(environment) if name.startswith("RFT_") and name not in known]


def _unknown(name: str, known: Collection[str]) -> str:
    alike = get_close_matches(name, sorted(known), n=1, cutoff=0.8)
    return f"{name} is no setting{f'; did you mean {alike[0]}?' if alike else ''}"
