"""What a run of an eval asks a model, put together from an item."""

from rft.platform.evals.run_schemas import MessageTemplate
from rft.platform.evals.verdicts import NoVerdict
from rft.platform.worker.eval_sampling import ItemMessages


def test_messages_that_become_megabytes_are_no_question() -> None:
    template = {"type": "template", "template": [{"role": "user", "content": "{{item.x}}" * 1000}]}
    messages = ItemMessages.of(MessageTemplate.model_validate(template))
    assert messages.messages({"x": "x" * 100_000}) == NoVerdict(
        "invalid_input_messages", "The input messages become more than 4,194,304 characters with this item."
    )
