-- Large files come in parts. Bytes of a part are its own until the upload is completed, given up or expires; then they
-- are loose, and swept.

create table uploads (
    id               text primary key,
    status           text not null check (status in ('pending', 'completed', 'cancelled', 'expired')),
    filename         text not null,
    purpose          text not null,
    bytes            bigint not null,               -- as announced
    created_at       timestamptz not null,
    expires_at       timestamptz not null,          -- from then on a pending one is expired, swept or not
    expires_after_s  integer,                       -- of the file that it becomes
    part_ids         text[],                        -- what it was completed with
    file_id          text
);
create index uploads_pending on uploads (expires_at) where status = 'pending';
create index uploads_oldest on uploads (expires_at);

create table upload_parts (
    id           text primary key,                  -- and the key of its bytes
    upload_id    text not null references uploads (id) on delete cascade,
    bytes        bigint not null,
    created_at   timestamptz not null
);
create index upload_parts_of on upload_parts (upload_id);
