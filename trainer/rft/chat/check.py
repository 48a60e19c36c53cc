"""`python -m rft.chat.check MODEL_DIR`: what a model's chat can do, or why it cannot be used, as JSON.

A program of its own: a large tokenizer takes seconds and memory that no server has to spare.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from rft.chat.errors import ChatTemplateError
from rft.chat.formats import AUTO, FORMATS
from rft.chat.model_folder import read_model_folder
from rft.chat.opening import open_chat
from rft.chat.thinking_switch import thinking_switch
from rft.core.chat_spec import ChatSpec
from rft.core.model_check import ModelCheck


def check_model(folder: Path, chat: ChatSpec, reasoning_effort: str = "default") -> ModelCheck:
    """The round trip that a run would begin with. Never raises for what is wrong with the model."""
    try:
        found = open_chat(
            read_model_folder(folder),
            wanted=chat.chat_format,
            options=chat.chat_template_kwargs,
            reasoning_effort=reasoning_effort,
        )
    except ChatTemplateError as error:
        return ModelCheck(problem=str(error))
    stop_ids = found.chat_format.stop_token_ids
    return ModelCheck(
        chat_format=found.name,
        template_fingerprint=found.template.fingerprint,
        is_template_shipped=found.is_shipped,
        takes_parallel_calls=found.round_trip.is_parallel,
        lists_tools=found.round_trip.lists_tools,
        thinking_switch=thinking_switch(found.template.source),
        has_thoughts=found.chat_format.syntax.thought_marks is not None,
        stop_tokens=tuple(found.chat_format.tokenizer.decode([token]) for token in stop_ids),
    )


def run_check(check: Callable[[Path, ChatSpec, str], ModelCheck], program: str) -> None:
    """Print what a check finds for the command line's arguments."""
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument("folder", type=Path, help="directory with tokenizer.json and a chat template")
    parser.add_argument("--chat-format", default=AUTO, help=", ".join((AUTO, *FORMATS)))
    parser.add_argument("--chat-template-kwargs", default="{}", help="what else the template reads, as JSON")
    parser.add_argument("--max-context-tokens", type=int, help="prompt and completion at most")
    parser.add_argument("--reasoning-effort", default="default", help="minimal, low, medium or high")
    args = parser.parse_args()
    kwargs = json.loads(args.chat_template_kwargs)
    chat = ChatSpec(
        chat_format=args.chat_format, chat_template_kwargs=kwargs, max_context_tokens=args.max_context_tokens
    )
    sys.stdout.write(check(args.folder, chat, args.reasoning_effort).model_dump_json() + "\n")


if __name__ == "__main__":
    run_check(check_model, "python -m rft.chat.check")
