-- Which of its host's slots a job's lease takes up, from 0: each may have devices of its own (`RFT_DEVICES`).
alter table jobs add column train_slot integer not null default 0;
