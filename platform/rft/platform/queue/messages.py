"""Messages to workers: each says "look at this row", and nothing else. The row is the truth."""

from dataclasses import dataclass

VALIDATE_JOB = "rft.validate_job"
RUN_JOB = "rft.run_job"
REHEARSE = "rft.rehearse"
RUN_EVAL = "rft.run_eval"
QUEUES = {VALIDATE_JOB: "control", REHEARSE: "control", RUN_EVAL: "control", RUN_JOB: "train"}


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """One task to publish for one job, rehearsal or run of an eval."""

    task_name: str
    job_id: str

    @property
    def queue(self) -> str:
        """Where its workers listen."""
        return QUEUES[self.task_name]
