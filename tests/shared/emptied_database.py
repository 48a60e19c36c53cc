"""One database with our tables that test after test gets empty, under another name each time.

A copy of a database is some nine hundred files; a test fills a few tables of it.
"""

import itertools
from collections.abc import Generator
from contextlib import contextmanager, suppress

import psycopg
from psycopg import sql
from psycopg.rows import scalar_row

from rft.platform.embedded.postgres import EmbeddedPostgres

_SCHEMA = """
    select md5(
        coalesce((
            select string_agg(format('%s %s %s %s %s', c.relname, c.relkind, a.attname, a.atttypid, a.attnotnull), ','
                              order by c.relname, a.attnum)
            from pg_class c left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
            where c.relnamespace = 'public'::regnamespace
        ), '') || coalesce((
            select string_agg(pg_get_constraintdef(oid), ',' order by conname)
            from pg_constraint where connamespace = 'public'::regnamespace
        ), '')
    )
"""
_TABLES = """
    select relname from pg_class
    where relnamespace = 'public'::regnamespace and relkind = 'r' and relname <> 'schema_migrations'
"""
_SEQUENCES = """
    select sequencename from pg_sequences where schemaname = 'public' and last_value is not null
"""
_ENDED = """
    select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s and backend_type = 'client backend'
"""
_MIGRATIONS = "select string_agg(applied::text, ',' order by applied::text) from schema_migrations applied"
_SIZE = "select pg_database_size(current_database())"
_MAX_GROWTH_BYTES = 16 << 20
"""Whoever stores more than this leaves tables that are slow to empty, and slow to read afterwards."""
_names = itertools.count(1)


class EmptiedDatabase:
    """Lends a database with tables, over and over; what a test did to it is undone."""

    def __init__(self, postgres: EmbeddedPostgres, template: str) -> None:
        self._postgres, self._template = postgres, template
        self._free: str | None = None
        with psycopg.connect(postgres.url(template)) as connection, connection.cursor(row_factory=scalar_row) as cursor:
            self._schema = cursor.execute(_SCHEMA).fetchone()
            self._migrations = cursor.execute(_MIGRATIONS).fetchone()
            self._size_bytes: int = cursor.execute(_SIZE).fetchone() or 0

    @contextmanager
    def lend(self) -> Generator[str]:
        """libpq URL of a database that has tables and no rows, as long as the context is open."""
        with psycopg.connect(self._postgres.url("postgres"), autocommit=True) as connection:
            name, self._free = self._free or self._copy(connection), None
            yield self._postgres.url(name)
            # Whatever outlives a test knows an older name, which leads nowhere.
            next_name = f"lent_{next(_names)}"
            connection.execute(_ENDED, [name])
            with suppress(psycopg.errors.ObjectInUse):  # who came back at once is thrown out by the drop
                rename = sql.SQL("alter database {} rename to {}")
                connection.execute(rename.format(sql.Identifier(name), sql.Identifier(next_name)))
                name = next_name
            if name == next_name and self._is_empty_again(name):
                self._free = name
            else:
                connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def _copy(self, connection: psycopg.Connection) -> str:
        name = f"lent_{next(_names)}"
        create = sql.SQL("create database {} template {} strategy file_copy")
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(self._template)))
        return name

    def _is_empty_again(self, name: str) -> bool:
        """Empty it; False for one that is not as the migrations left it, too large, or takes no connections."""
        with (
            suppress(psycopg.Error),
            psycopg.connect(self._postgres.url(name)) as connection,
            connection.cursor(row_factory=scalar_row) as cursor,
        ):
            if cursor.execute(_SCHEMA).fetchone() != self._schema:
                return False
            if cursor.execute(_MIGRATIONS).fetchone() != self._migrations:
                return False
            if (cursor.execute(_SIZE).fetchone() or 0) > self._size_bytes + _MAX_GROWTH_BYTES:
                return False
            cursor.execute("set local session_replication_role = replica")  # no order among foreign keys
            for table in cursor.execute(_TABLES).fetchall():
                cursor.execute(sql.SQL("delete from {}").format(sql.Identifier(table)))
            for sequence in cursor.execute(_SEQUENCES).fetchall():
                cursor.execute("select setval(%s::regclass, 1, false)", [sequence])
            return True
        return False
