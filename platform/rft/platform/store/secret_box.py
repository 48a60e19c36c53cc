"""Secrets at rest: header values of tools and graders, encrypted with keys that live beside the data."""

import logging
from contextlib import suppress
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from rft.core.errors import RftError
from rft.core.spec import RunSecrets
from rft.platform.store import key_file

_LOG = logging.getLogger(__name__)
KEY_FILE = "secret.key"


class SecretsUnreadable(RftError):
    """The key file does not hold the key that the secrets were sealed with."""


class SecretBox:
    """Seals with the newest key, unseals with any of them; follows the key file when that changes."""

    def __init__(self, path: Path) -> None:
        """Raises FileNotFoundError, KeyFileUnusable."""
        self._path = path
        self._seen = _identity(path)
        self._fernet = _fernet(path)

    @classmethod
    def at(cls, home: Path) -> "SecretBox":
        """The box of a data directory; its first key is generated (mode 0600) on first use."""
        path = home / KEY_FILE
        key_file.make_if_missing(path)
        return cls(path)

    def seal(self, secrets: RunSecrets) -> bytes:
        """A run's secrets, encrypted and authenticated."""
        return self.seal_text(secrets.model_dump_json())

    def unseal(self, sealed: bytes) -> RunSecrets:
        """What `seal` sealed. Raises SecretsUnreadable."""
        return RunSecrets.model_validate_json(self.unseal_text(sealed))

    def seal_text(self, text: str) -> bytes:
        """Any text, encrypted and authenticated."""
        return self._fernet_now().encrypt(text.encode())

    def unseal_text(self, sealed: bytes) -> str:
        """What `seal_text` sealed. Raises SecretsUnreadable."""
        with suppress(InvalidToken):
            return self._fernet_now().decrypt(bytes(sealed)).decode()
        try:
            # Other hosts may share the folder, and see for up to a minute what its files were like before.
            return self._fernet_now(must_read=True).decrypt(bytes(sealed)).decode()
        except InvalidToken as error:
            raise SecretsUnreadable(f"sealed with a key that is not in {KEY_FILE}") from error

    def _fernet_now(self, *, must_read: bool = False) -> MultiFernet:
        # Keys are rotated under running processes: a look at the file's identity is all it costs to notice.
        try:
            identity = _identity(self._path)
            if must_read or identity != self._seen:
                self._fernet, self._seen = _fernet(self._path), identity
        except FileNotFoundError:
            _LOG.error("%s is gone; going on with the keys it held", KEY_FILE)
        return self._fernet


def _identity(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _fernet(path: Path) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in key_file.read(path)])
