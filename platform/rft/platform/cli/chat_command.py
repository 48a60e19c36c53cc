"""The command `rft chat`."""

from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from rft.platform.cli.arguments import of_jobs
from rft.platform.cli.inputs import read_body

if TYPE_CHECKING:
    from rft.core.base import JsonObject
    from rft.platform.cli.session import Session


def chat(
    here: "Session",
    model: Annotated[str, Argument(metavar="MODEL", help="ft:..., ...:ckpt-step-N, a base model, or a job.")],
    message: Annotated[
        str | None, Option("--message", "-m", help="Say this and end; else read lines until Ctrl-D.")
    ] = None,
    job: Annotated[
        str | None,
        Option("--job", metavar="JOB", help="Whose tools a base model may call.", autocompletion=of_jobs),
    ] = None,
    item: Annotated[
        str | None, Option("--item", metavar="ITEM.json", help="A row's fields that the tools read.")
    ] = None,
    system: Annotated[str | None, Option("--system", help="What stands before the conversation.")] = None,
    temperature: Annotated[float | None, Option("--temperature", min=0.0, max=2.0)] = None,
    seed: Annotated[int | None, Option("--seed", help="The same one gives the same answers.")] = None,
) -> None:
    """Talk to a model; the tools of its job are really called. 1 when the answer of -m ended in a failure."""
    from rft.platform.cli.chat import Chat, open_conversation

    options: JsonObject = {"temperature": temperature, "seed": seed}
    conversation = open_conversation(here, model, job, options, None if item is None else read_body(item))
    terminal = Chat(here, conversation)
    if system is not None:
        terminal.messages.append({"role": "developer", "content": system})
    if message is None:
        terminal.interactively()
    elif not terminal.turn(message):
        raise typer.Exit(1)
