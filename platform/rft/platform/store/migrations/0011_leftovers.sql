-- Nothing is left behind: bytes of uploads that were cut off, and rehearsals that nobody waits for any more.

-- Bytes in the file store that belong to no file, not yet or no more.
create table loose_bytes (
    storage_key    text primary key,
    due_at         timestamptz not null             -- from then on whoever comes by deletes them
);
create index loose_bytes_due on loose_bytes (due_at);

alter table rehearsals add column is_cancel_requested boolean not null default false;
alter table rehearsals drop constraint rehearsals_status_check;
alter table rehearsals add constraint rehearsals_status_check
    check (status in ('queued', 'running', 'completed', 'failed', 'cancelled'));
