-- A list goes on after an object that was deleted meanwhile: its place is remembered for a while.

create table departed (
    id          text primary key,
    list        text not null,                      -- which list it stood in
    created_at  timestamptz not null,
    seq         bigint not null default 0,          -- its place where the list goes by number
    deleted_at  timestamptz not null default clock_timestamp()
);
create index departed_oldest on departed (deleted_at);
