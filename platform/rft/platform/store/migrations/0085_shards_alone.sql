-- A shard that may take its worker's process with it, for one that runs nothing else meanwhile.
alter table rollout_shards add column is_alone boolean not null default false;
