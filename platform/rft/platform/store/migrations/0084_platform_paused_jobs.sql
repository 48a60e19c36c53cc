-- Every page of the dashboard asks for them now and then.

create index jobs_paused_by_platform on jobs (created_at desc, id) where pause_reason is not null;
