"""`/v1/fine_tuning/jobs/{id}/playground`: talking to a model of a job, whose own tools are really called."""
