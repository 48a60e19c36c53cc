-- Where the rollouts of a shard are now (`StageCounts`), as its worker told with its last beat; null: not told.
alter table rollout_shards add column stages jsonb;
