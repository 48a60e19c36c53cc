"""A database that has been served from before, and the home that belongs to it."""

from pathlib import Path

import psycopg

from rft.platform.embedded.supervisor import key_file, prepare_database
from rft.platform.signing.service import ensure_signing_secret
from rft.platform.store.secret_box import KEY_FILE, SecretBox


async def test_secrets_whose_key_is_gone_are_noticed_before_a_new_one_is_made(
    migrated_url: str, tmp_path: Path
) -> None:
    key_file(tmp_path).parent.mkdir()
    first = await prepare_database(migrated_url, tmp_path)
    assert not first.is_key_lost, "nothing is sealed yet"
    async with await psycopg.AsyncConnection.connect(migrated_url) as connection:
        await ensure_signing_secret(connection, SecretBox.at(tmp_path))
    again = await prepare_database(migrated_url, tmp_path)
    assert (again.is_key_lost, again.api_key) == (False, first.api_key)
    (tmp_path / KEY_FILE).unlink()
    assert (await prepare_database(migrated_url, tmp_path)).is_key_lost
