"""Folders for the homes of platforms, outside pytest's own: root's service user could not enter that one."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rft.platform.embedded.home import Home


@contextmanager
def home_folder() -> Generator[Path]:
    """A folder that goes away afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="rft-test-"))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def held_home() -> Generator[Home]:
    """A home for servers without a platform, held."""
    with home_folder() as folder:
        home = Home(folder)
        with home.hold():
            try:
                yield home
            finally:
                shutil.rmtree(home.socket_dir(), ignore_errors=True)
