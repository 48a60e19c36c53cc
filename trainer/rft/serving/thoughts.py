"""How long the thoughts of an answer may be: as in training."""

from rft.chat.model_tokenizer import ModelTokenizer
from rft.chat.template_format import TemplateChatFormat
from rft.chat.thinking_switch import default_thought_tokens
from rft.serving_wire.records import CompletionRequest


def thought_limit(request: CompletionRequest, chat_format: TemplateChatFormat) -> int | None:
    """Tokens of one turn's thoughts; None for no limit, as for a base model that no job's budgets hold for.

    A limit that an order names goes with its effort: another effort has the share of the tokens that it stands for.
    """
    trained, effort = request.adapter, request.reasoning_effort
    budgets = request.budgets
    if budgets is None and trained is not None:
        budgets = trained.budgets
        if budgets is not None and effort not in (None, trained.reasoning_effort):
            budgets = budgets.model_copy(update={"max_reasoning_tokens": None})
    if budgets is None or budgets.max_reasoning_tokens is not None:
        return budgets and budgets.max_reasoning_tokens
    if not isinstance(chat_format.tokenizer, ModelTokenizer):
        return None
    effort = effort or ("default" if trained is None else trained.reasoning_effort)
    return default_thought_tokens(chat_format.tokenizer.template.source, effort, budgets.max_tokens)
