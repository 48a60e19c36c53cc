"""Another key for everything sealed: nothing is ever unreadable, whenever somebody looks or pulls the plug."""

from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from rft.core.spec import RunSecrets
from rft.platform.store import key_file, secret_box
from rft.platform.store.key_rotation import SEALED_COLUMNS, RotationRunning, rotate_key
from rft.platform.store.secret_box import KEY_FILE, SecretBox, SecretsUnreadable

SECRETS = RunSecrets(grader_headers={"X-Key": "s3cret"})
INSERT_JOB: LiteralString = (
    "insert into jobs (id, status, model, base_model_path, training_file, seed, method, request, secrets)"
    " values (%s, 'queued', 'tiny', '/m', 'file-1', 1, '{}', '{}', %s)"
)
INSERT_SECRET: LiteralString = "insert into signing_secrets (id, sealed) values (%s, %s)"


class PowerCut(Exception):
    """The process ends here."""


def fill(url: str, box: SecretBox, name: str) -> None:
    """One job and one signing secret."""
    with psycopg.connect(url) as connection:
        connection.execute(INSERT_JOB, (f"ftjob-{name}", box.seal(SECRETS)))
        connection.execute(INSERT_SECRET, (f"sigsec_{name}", box.seal_text("whsec_s3cret")))


def read_all(url: str, box: SecretBox) -> int:
    """How many sealed values there are; fails when one cannot be opened."""
    with psycopg.connect(url) as connection:
        jobs = connection.execute("select secrets from jobs where secrets is not null").fetchall()
        sealed = connection.execute("select sealed from signing_secrets").fetchall()
    assert all(box.unseal(secrets) == SECRETS for (secrets,) in jobs)
    assert all(box.unseal_text(value) == "whsec_s3cret" for (value,) in sealed)
    return len(jobs) + len(sealed)


def test_a_rotation_seals_everything_anew_under_running_processes(migrated_url: str, tmp_path: Path) -> None:
    running, file = SecretBox.at(tmp_path), tmp_path / KEY_FILE
    fill(migrated_url, running, "before")
    with psycopg.connect(migrated_url) as connection:
        connection.execute("insert into api_keys (id, sha256, name) values ('k', 'x', 'bytea, but not sealed')")
        connection.execute(INSERT_JOB, ("ftjob-none", None))
    (old,) = key_file.read(file)

    def meanwhile(_: float) -> None:
        assert len(key_file.read(file)) == 2
        assert read_all(migrated_url, running) == 2
        fill(migrated_url, running, "meanwhile")

    done = rotate_key(file, migrated_url, sleep=meanwhile)
    assert (done.resealed, done.unreadable) == (2, 0), "what was sealed meanwhile was sealed with the new key"
    assert read_all(migrated_url, running) == read_all(migrated_url, SecretBox.at(tmp_path)) == 4
    new, previous = key_file.read(file)
    assert (new != old, previous) == (True, old)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_what_was_sealed_before_and_stored_late_is_not_lost(migrated_url: str, tmp_path: Path) -> None:
    box = SecretBox.at(tmp_path)
    late = box.seal(SECRETS)

    def store(_: float) -> None:
        with psycopg.connect(migrated_url) as connection:
            connection.execute(INSERT_JOB, ("ftjob-late", late))

    assert rotate_key(tmp_path / KEY_FILE, migrated_url, sleep=store).resealed == 1
    assert read_all(migrated_url, box) == 1


def test_an_interrupted_rotation_loses_nothing_and_the_next_one_finishes(migrated_url: str, tmp_path: Path) -> None:
    box, file = SecretBox.at(tmp_path), tmp_path / KEY_FILE
    fill(migrated_url, box, "a")

    def cut(_: float) -> None:
        raise PowerCut

    with pytest.raises(PowerCut):
        rotate_key(file, migrated_url, sleep=cut)
    assert len(key_file.read(file)) == 2
    fill(migrated_url, box, "b")
    assert read_all(migrated_url, box) == read_all(migrated_url, SecretBox.at(tmp_path)) == 4
    assert rotate_key(file, migrated_url, settle_s=0).unreadable == 0
    assert len(key_file.read(file)) == 3, "a host that is late may seal with the first one still"
    assert read_all(migrated_url, box) == 4


def test_a_key_goes_with_the_next_rotation_but_one(migrated_url: str, tmp_path: Path) -> None:
    box, file, keys = SecretBox.at(tmp_path), tmp_path / KEY_FILE, list[bytes]()
    fill(migrated_url, box, "a")
    for _ in range(3):
        keys.append(key_file.read(file)[0])
        rotate_key(file, migrated_url, settle_s=0)
    newest, *previous = key_file.read(file)
    assert previous == [keys[-1], keys[-2]]
    assert newest not in keys
    assert read_all(migrated_url, box) == 2


def test_a_host_that_sees_the_new_key_late_loses_nothing(
    migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shares the folder over NFS, whose clients keep for a while what they were told of a file."""
    here, elsewhere, file = SecretBox.at(tmp_path), SecretBox.at(tmp_path), tmp_path / KEY_FILE
    fill(migrated_url, here, "before")
    found = file.stat()

    def identity(path: Path) -> tuple[int, int, int]:
        assert path == file
        return found.st_ino, found.st_mtime_ns, found.st_size

    rotate_key(file, migrated_url, settle_s=0)
    assert read_all(migrated_url, here) == 2
    with monkeypatch.context() as cached:
        cached.setattr(secret_box, "_identity", identity)
        fill(migrated_url, elsewhere, "late")
        assert read_all(migrated_url, elsewhere) == 4
    assert read_all(migrated_url, here) == 4
    assert rotate_key(file, migrated_url, settle_s=0).unreadable == 0


def test_half_a_pass_loses_nothing(migrated_url: str, tmp_path: Path) -> None:
    box, file = SecretBox.at(tmp_path), tmp_path / KEY_FILE
    fill(migrated_url, box, "a")
    with psycopg.connect(migrated_url) as connection:
        connection.execute("alter table signing_secrets rename to hidden")
    with pytest.raises(psycopg.errors.UndefinedTable):
        rotate_key(file, migrated_url, settle_s=0)
    with psycopg.connect(migrated_url) as connection:
        connection.execute("alter table hidden rename to signing_secrets")
    assert read_all(migrated_url, box) == 2


def test_two_rotations_at_once_would_drop_each_others_key(migrated_url: str, tmp_path: Path) -> None:
    box, file = SecretBox.at(tmp_path), tmp_path / KEY_FILE
    fill(migrated_url, box, "a")

    def another(_: float) -> None:
        with pytest.raises(RotationRunning):
            rotate_key(file, migrated_url, settle_s=0)

    rotate_key(file, migrated_url, sleep=another)
    assert read_all(migrated_url, box) == 2


def test_what_no_key_opens_is_counted_and_left(migrated_url: str, tmp_path: Path) -> None:
    box = SecretBox.at(tmp_path / "home")
    fill(migrated_url, SecretBox.at(tmp_path / "lost"), "a")
    done = rotate_key(tmp_path / "home" / KEY_FILE, migrated_url, settle_s=0)
    assert (done.resealed, done.unreadable) == (0, 2)
    with psycopg.connect(migrated_url) as connection, pytest.raises(SecretsUnreadable):
        box.unseal(connection.execute("select secrets from jobs").fetchall()[0][0])


def test_every_sealed_column_of_the_schema_is_rotated(migrated_url: str) -> None:
    with psycopg.connect(migrated_url) as connection:
        columns = connection.execute(
            "select table_name, column_name from information_schema.columns"
            " where table_schema = 'public' and data_type = 'bytea' and column_name in ('secrets', 'sealed')"
        ).fetchall()
    assert set(columns) == {(column.table, column.column) for column in SEALED_COLUMNS}


def test_a_running_box_goes_on_when_its_file_is_lost(tmp_path: Path) -> None:
    box = SecretBox.at(tmp_path)
    sealed = box.seal(SECRETS)
    (tmp_path / KEY_FILE).unlink()
    assert box.unseal(sealed) == SECRETS
    with pytest.raises(FileNotFoundError):
        SecretBox(tmp_path / KEY_FILE)
    (tmp_path / KEY_FILE).write_text("\n")
    with pytest.raises(key_file.KeyFileUnusable):
        SecretBox(tmp_path / KEY_FILE)
