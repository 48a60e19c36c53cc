-- One kind of lease for jobs, rehearsals and regrades: an owner, an end, and a token that fences what its owner writes.

alter table rehearsals add column lease_token bigint not null default 0;

alter table regrades add column lease_owner text;
alter table regrades add column lease_until timestamptz;
alter table regrades add column lease_token bigint not null default 0;
update regrades set lease_until = touched_at + interval '1 minute' where status in ('queued', 'running');
alter table regrades drop column touched_at;
