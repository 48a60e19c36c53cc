-- How far trainer and sampler may differ before a job is paused, where it was resumed with a limit of its own.

alter table jobs add column max_importance_gap double precision;    -- null: as ordered, or else as set
