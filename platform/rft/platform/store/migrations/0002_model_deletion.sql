-- A fine-tuned model can be deleted; its job keeps its history.

alter table jobs add column model_deleted_at timestamptz;
