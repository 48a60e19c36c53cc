"""Secrets at rest: header values of tools and graders, encrypted with a key that lives beside the data."""

import os
from functools import cache
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from rft.core.errors import RftError
from rft.core.spec import RunSecrets
from rft.platform.settings import settings

KEY_FILE = "secret.key"


class SecretsUnreadable(RftError):
    """The key file is not the one the secrets were sealed with."""


class SecretBox:
    """Seals and unseals with one key."""

    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(key)

    @classmethod
    def at(cls, home: Path) -> "SecretBox":
        """The box of a data directory; its key is generated (mode 0600) on first use."""
        return cls(_read_or_make_key(home / KEY_FILE))

    def seal(self, secrets: RunSecrets) -> bytes:
        """Encrypted and authenticated."""
        return self._fernet.encrypt(secrets.model_dump_json().encode())

    def unseal(self, sealed: bytes) -> RunSecrets:
        """What was sealed. Raises SecretsUnreadable."""
        try:
            return RunSecrets.model_validate_json(self._fernet.decrypt(bytes(sealed)))
        except InvalidToken as error:
            raise SecretsUnreadable(f"sealed with another key than the one in {KEY_FILE}") from error


def _read_or_make_key(path: Path) -> bytes:
    """Several processes may start at once: the first to link its key into place wins, all read that one."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(Fernet.generate_key())
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_bytes().strip()


@cache
def _box() -> SecretBox:
    return SecretBox.at(settings().home)


def seal(secrets: RunSecrets) -> bytes:
    """Seal with this process's key (`$RFT_HOME/secret.key`)."""
    return _box().seal(secrets)


def unseal(sealed: bytes) -> RunSecrets:
    """Unseal with this process's key. Raises SecretsUnreadable."""
    return _box().unseal(sealed)
