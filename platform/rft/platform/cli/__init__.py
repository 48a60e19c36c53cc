"""The command `rft`."""

from rft.platform.cli.app import main

__all__ = ["main"]
