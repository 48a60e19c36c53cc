"""Names inside a run directory: the whole interface between platform and trainer."""

SPEC = "spec.json"
TRAIN_ROWS = "train.jsonl"
VALID_ROWS = "valid.jsonl"
TEST_ROWS = "test.jsonl"
EVENTS = "events.jsonl"
LOG = "trainer.log"
PROGRESS = "progress.json"
"""What the run is doing now; of no use to a later launch."""
LOCK = "trainer.lock"
OPEN_ROLLOUTS = "open_rollouts.log"
"""Rollouts that customers' servers were told of and that have not ended."""
FINISHED = "finished"
"""Folder of what ended in steps that are not complete, a file for each round; taken over by the next launch."""
CHAT = "chat"
"""Folder of the chat that the first launch found, for launches before there is a checkpoint that holds it."""
CHECKPOINTS = "checkpoints"
COMPLETE = "COMPLETE"
"""Marker written last into a checkpoint directory; only marked ones are resumed from."""


def checkpoint_dir(step: int) -> str:
    """Relative path of the checkpoint of a step."""
    return f"{CHECKPOINTS}/checkpoint-{step}"


def finished_journal(step: int, split: str) -> str:
    """Relative path of what ended in one round of a step."""
    return f"{FINISHED}/step-{step}-{split}.jsonl"
