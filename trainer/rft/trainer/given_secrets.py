"""The secrets of a run, as whoever starts one of its processes gives them."""

import sys

from rft.core.spec import RunSecrets


def read_secrets() -> RunSecrets:
    """JSON on standard input; nothing there means none. Raises ValidationError, whose words may hold secrets."""
    text = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
    return RunSecrets.model_validate_json(text) if text.strip() else RunSecrets()
