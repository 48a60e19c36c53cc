-- A run that stops for something that is ours to mend pauses its job, and this says why.

alter table jobs add column pause_reason jsonb;        -- {code, message, since, step}
