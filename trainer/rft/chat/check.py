"""`python -m rft.chat.check MODEL_DIR`: what a model's chat can do, or why it cannot be used, as JSON.

A program of its own: a large tokenizer takes seconds and memory that no server has to spare.
"""

import argparse
import sys
from pathlib import Path

from rft.chat.errors import ChatTemplateError
from rft.chat.formats import AUTO, FORMATS
from rft.chat.model_folder import read_model_folder
from rft.chat.opening import open_chat
from rft.core.model_check import ModelCheck


def check_model(folder: Path, chat_format: str = AUTO) -> ModelCheck:
    """The round trip that a run would begin with. Never raises for what is wrong with the model."""
    try:
        chat = open_chat(read_model_folder(folder), wanted=chat_format)
    except ChatTemplateError as error:
        return ModelCheck(problem=str(error))
    stop_ids = chat.chat_format.stop_token_ids
    return ModelCheck(
        chat_format=chat.name,
        template_fingerprint=chat.template.fingerprint,
        is_template_shipped=chat.is_shipped,
        takes_parallel_calls=chat.round_trip.is_parallel,
        lists_tools=chat.round_trip.lists_tools,
        stop_tokens=tuple(chat.chat_format.tokenizer.decode([token]) for token in stop_ids),
    )


def main() -> None:
    """Print what was found."""
    parser = argparse.ArgumentParser(prog="python -m rft.chat.check", description=__doc__)
    parser.add_argument("folder", type=Path, help="directory with tokenizer.json and a chat template")
    parser.add_argument("--chat-format", default=AUTO, choices=(AUTO, *FORMATS))
    args = parser.parse_args()
    sys.stdout.write(check_model(args.folder, args.chat_format).model_dump_json() + "\n")


if __name__ == "__main__":
    main()
