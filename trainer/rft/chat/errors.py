"""Why a model cannot be used with the chat it is asked for."""

from collections.abc import Generator
from contextlib import contextmanager

from rft.core.errors import RftError

_PANIC = "PanicException"
"""What the tokenizer library's own crash is called; it is no `Exception`."""


class ChatTemplateError(RftError):
    """The model's tokenizer or chat template cannot do what a rollout needs; the message says what and what to do."""


@contextmanager
def foreign_code(doing: str) -> Generator[None]:
    """Whatever a template or a tokenizer raises becomes a ChatTemplateError: it is the model's, not ours."""
    try:
        yield
    except (ChatTemplateError, MemoryError):
        raise
    except Exception as error:
        raise ChatTemplateError(f"{doing} failed: {_sentence(error)}") from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise ChatTemplateError(f"{doing} failed: {_sentence(error)}") from error


def _sentence(error: BaseException) -> str:
    """One short line; jinja2's own errors need no class name."""
    text = " ".join(str(error).split())[:300]
    name = type(error).__name__
    return f"{name}: {text}" if text else name
