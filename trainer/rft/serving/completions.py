"""One request from its messages to the end of its last choice."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rft.chat.errors import ChatTemplateError
from rft.chat.template_format import TemplateChatFormat
from rft.core.errors import RftError, RunFailed, SamplerError
from rft.engines.base import Engine
from rft.rollouts.gather_or_cancel import gather_or_cancel
from rft.serving.choices import ChoiceRun
from rft.serving.forced_calls import ForcedCalls, forced_calls
from rft.serving.formats import AnswersInFormat, answers_in_format
from rft.serving.policies import ServedPolicies
from rft.serving.prompts import Conversation, ReadPrompt, read_prompt
from rft.serving.refusals import RequestRefused, adapter_gone, bad_request
from rft.serving.remembered import RememberedConversations
from rft.serving.thoughts import thought_limit
from rft.serving_wire.records import AdapterRef, Choice, CompletionRequest, Done, Event, Prompt, Refused

Tell = Callable[[Event], None]


class ChatFormats(Protocol):
    """Which chat format a policy has."""

    def of(self, adapter: AdapterRef | None, reasoning_effort: str | None) -> TemplateChatFormat:
        """`reasoning_effort`: None for that of the training. Raises RunFailed, ChatTemplateError."""
        ...


@dataclass(frozen=True, slots=True)
class Completions:
    """Answers requests; what they share of one process."""

    engine: Engine
    chats: ChatFormats
    policies: ServedPolicies
    remembered: RememberedConversations

    async def answer(self, request: CompletionRequest, tell: Tell) -> None:
        """Events until `Done` or `Refused`. Cancelled, it frees the engine at once."""
        try:
            await self._answer(request, tell)
            tell(Done())
        except RequestRefused as refusal:
            tell(refusal.refused)
        except RftError as error:
            tell(Refused(kind="broken", code="sampler_error", message=f"The model could not answer: {error}"))

    async def _answer(self, request: CompletionRequest, tell: Tell) -> None:
        adapter = request.adapter
        directory = None if adapter is None else Path(adapter.directory)
        if directory is not None and not directory.is_dir():
            raise adapter_gone(request.model)
        try:
            chat_format = self.chats.of(adapter, request.reasoning_effort)
        except (ChatTemplateError, RunFailed) as error:
            message = f"The model '{request.model}' cannot chat: {error}"
            raise bad_request(message, code="unusable_model", param="model") from error
        policy = f"{request.model} {adapter} {request.reasoning_effort}"
        conversation = Conversation(policy, request.tools, request.messages, request.sampled_turns)
        prompt = read_prompt(conversation, chat_format, self.remembered)
        self._refuse_too_long(len(prompt.token_ids))
        max_reasoning_tokens = thought_limit(request, chat_format)
        held_to: AnswersInFormat | ForcedCalls | None = None
        if request.forced_calls:
            held_to = await asyncio.to_thread(forced_calls, request, chat_format, len(prompt.token_ids))
        elif request.response_format is not None:
            held_to = await asyncio.to_thread(answers_in_format, request.response_format, chat_format.tokenizer)

        async def choose(version: int, index: int) -> Choice:
            run = ChoiceRun(
                request,
                index,
                chat_format,
                self.engine,
                version,
                conversation,
                prompt,
                self.remembered,
                tell,
                max_reasoning_tokens,
                held_to,
            )
            choice = await run.run()
            tell(choice)
            return choice

        try:
            async with self.policies.sampling_from(directory) as version:
                tell(_told(prompt))  # Not before: a reply that has begun can have no status of a refusal any more.
                await gather_or_cancel(choose(version, index) for index in range(request.n))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        except SamplerError:
            if directory is not None and not directory.is_dir():
                raise adapter_gone(request.model) from None
            raise

    def _refuse_too_long(self, prompt_tokens: int) -> None:
        limit = self.engine.max_context_tokens
        if prompt_tokens >= limit:
            raise bad_request(
                f"This model's maximum context length is {limit} tokens. Your messages, with their tools, have"
                f" {prompt_tokens} tokens.",
                code="context_length_exceeded",
                param="messages",
            )


def _told(prompt: ReadPrompt) -> Prompt:
    return Prompt(
        prompt_tokens=len(prompt.token_ids),
        remembered_tokens=prompt.remembered_tokens,
        is_rendered_again=prompt.is_rendered_again,
        token_ids=prompt.token_ids,
        withheld=prompt.withheld,
    )
