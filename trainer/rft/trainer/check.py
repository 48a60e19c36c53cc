"""`python -m rft.trainer.check MODEL_DIR`: what a base model's chat and layers allow, or why it is unusable, as JSON.

A program of its own: what it imports takes seconds and memory that no server has to spare. Where the libraries of the
trainer are not installed, it tells of the chat alone.
"""

from pathlib import Path

from rft.chat.check import check_model, run_check
from rft.core.chat_spec import ChatSpec
from rft.core.model_check import ModelCheck
from rft.engines.import_env import prepare_imports


def check_base_model(folder: Path, chat: ChatSpec, reasoning_effort: str = "default") -> ModelCheck:
    """Never raises for what is wrong with the model."""
    found = check_model(folder, chat, reasoning_effort)
    if found.problem is not None or not (folder / "config.json").is_file():
        return found
    try:
        from rft.engines.architecture import engine_problem, read_config
        from rft.engines.tokenizer import UnusableModel
        from rft.trainer.model_figures import figures_of
    except ImportError:
        return found
    try:
        config = read_config(str(folder))
        problem = engine_problem(config)
        figures = figures_of(config, max_context_tokens=chat.max_context_tokens, is_held=problem is None)
    except UnusableModel as error:
        return ModelCheck(problem=str(error))
    return found.model_copy(update={"engine_problem": problem, "figures": figures})


if __name__ == "__main__":
    prepare_imports()
    run_check(check_base_model, "python -m rft.trainer.check")
