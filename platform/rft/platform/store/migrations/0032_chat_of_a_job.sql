-- How a job's chat is rendered, read and limited, as it stood when the job was created.

alter table jobs add column chat jsonb;                 -- null in older jobs
