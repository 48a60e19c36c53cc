"""What a run, or one of its ranks, ends with, in the customer's words."""

from rft.chat.errors import ChatTemplateError
from rft.core.errors import RunFailed, RunPaused, SamplerError
from rft.trainer.data import BadDataset


def error_fields(error: Exception) -> tuple[str, str, str | None]:
    """Code, message and param for the customer."""
    match error:
        case RunFailed() | RunPaused():
            return error.code, str(error), error.param
        case BadDataset():
            return "invalid_file", str(error), error.param
        case ChatTemplateError():
            return "unusable_model", str(error), "model"
        case SamplerError():
            return "sampler_failed", f"The engine that samples from the policy failed: {error}", None
        case MemoryError():
            return "out_of_memory", "The machine ran out of memory; a smaller batch_size may help.", None
        case _:
            return "internal_error", f"{type(error).__name__}: {error}", None
