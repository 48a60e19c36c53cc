-- Columns carry the name that the code uses.

alter table jobs rename column rung_at to enqueued_at;
alter table rehearsals rename column rung_at to enqueued_at;
