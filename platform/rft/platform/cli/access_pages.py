"""Who may use a checkpoint or the API, and what calls are signed with, for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rft.platform.cli.pages import Fitted, add, ident, state, table
from rft.platform.cli.views import Permission, SigningSecret
from rft.platform.cli.words import NOTHING, date

if TYPE_CHECKING:
    from rft.platform.api.key_repository import KeyRow


def permission_table(permissions: Sequence[Permission]) -> Fitted:
    """One project a line."""
    grid = table(ident("permission"), "project", "created")
    for permission in permissions:
        add(grid, permission.id, permission.project_id, date(permission.created_at))
    return Fitted(grid, spare=("created",))


def signing_secret_table(secrets: Sequence[SigningSecret]) -> Fitted:
    """One secret a line, without its value."""
    grid = table(ident("secret"), "state", "created", "retired")
    for secret in secrets:
        retired = NOTHING if secret.retired_at is None else date(secret.retired_at)
        add(grid, secret.id, state(secret.status), date(secret.created_at), retired)
    return Fitted(grid, spare=("retired", "created"))


def key_table(keys: "Sequence[KeyRow]") -> Fitted:
    """One API key a line, without its value."""
    grid = table(ident("key"), "name", "state", "created", "last used")
    for key in keys:
        used = NOTHING if key.last_used_at is None else date(int(key.last_used_at.timestamp()))
        status = "active" if key.revoked_at is None else "revoked"
        add(grid, key.id, key.name, state(status), date(int(key.created_at.timestamp())), used)
    return Fitted(grid, spare=("created", "state"))
