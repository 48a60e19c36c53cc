"""From what a serving process tells to replies and chunks, as the official SDK reads them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rft.platform.serving.schemas import (
    AssistantMessage,
    ChatCompletion,
    ChatCompletionChunk,
    ChoiceDelta,
    ChoiceLogprobs,
    ChunkChoice,
    CompletionChoice,
    CompletionTokensDetails,
    CompletionUsage,
    DeltaFunction,
    DeltaToolCall,
    FunctionCall,
    MessageToolCall,
    PromptTokensDetails,
    TokenLogprob,
)
from rft.platform.serving.told import ToldSoFar
from rft.serving_wire.records import Choice, Done, Event, Prompt, Refused, Text


@dataclass(slots=True, kw_only=True)
class Reply(ToldSoFar):
    """A chat completion."""

    id: str
    created: int
    n: int
    has_logprobs: bool = False
    has_token_ids: bool = False
    has_usage: bool = False
    """In the last chunk of a stream."""

    def completion(self) -> ChatCompletion:
        """The whole reply, once all choices are there."""
        choices = sorted(self.choices, key=lambda choice: choice.index)
        return ChatCompletion(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=[self._whole(choice) for choice in choices],
            usage=self._usage(),
            prompt_token_ids=self._prompt_ids(),
        )

    def chunks(self, event: Event) -> Iterator[ChatCompletionChunk]:
        """What a stream says on account of an event that was taken."""
        match event:
            case Prompt():
                for index in range(self.n):
                    chunk = self._chunk(ChunkChoice(index=index, delta=ChoiceDelta(role="assistant", content="")))
                    yield chunk.model_copy(update={"prompt_token_ids": None if index else self._prompt_ids()})
            case Text():
                yield self._chunk(ChunkChoice(index=event.index, delta=ChoiceDelta(content=event.text)))
            case Choice():
                yield from map(self._chunk, self._last_parts(event))
            case Done():
                if self.has_usage:
                    yield self._chunk().model_copy(update={"usage": self._usage()})
            case Refused():
                pass

    def _chunk(self, *choices: ChunkChoice) -> ChatCompletionChunk:
        return ChatCompletionChunk(id=self.id, created=self.created, model=self.model, choices=list(choices))

    def _last_parts(self, choice: Choice) -> Iterator[ChunkChoice]:
        index = choice.index
        if choice.reasoning:
            yield ChunkChoice(index=index, delta=ChoiceDelta(reasoning_content=choice.reasoning))
        for number, call in enumerate(choice.tool_calls):
            function = DeltaFunction(name=call.name, arguments=call.arguments)
            told = DeltaToolCall(index=number, id=call.call_id, function=function)
            yield ChunkChoice(index=index, delta=ChoiceDelta(tool_calls=[told]))
        yield ChunkChoice(
            index=index,
            delta=ChoiceDelta(),
            finish_reason=choice.finish_reason,
            logprobs=self._logprobs(choice),
            token_ids=self._token_ids(choice),
        )

    def _whole(self, choice: Choice) -> CompletionChoice:
        calls = [
            MessageToolCall(id=call.call_id, function=FunctionCall(name=call.name, arguments=call.arguments))
            for call in choice.tool_calls
        ]
        message = AssistantMessage(
            content=choice.content or (None if calls else ""),
            tool_calls=calls or None,
            reasoning_content=choice.reasoning or None,
        )
        return CompletionChoice(
            index=choice.index,
            finish_reason=choice.finish_reason,
            message=message,
            logprobs=self._logprobs(choice),
            token_ids=self._token_ids(choice),
        )

    def _logprobs(self, choice: Choice) -> ChoiceLogprobs | None:
        if not self.has_logprobs:
            return None
        return ChoiceLogprobs(
            content=[
                TokenLogprob(token=token.text, bytes=list(token.utf8), logprob=token.logprob) for token in choice.tokens
            ]
        )

    def _token_ids(self, choice: Choice) -> list[int] | None:
        return list(choice.token_ids) if self.has_token_ids else None

    def _prompt_ids(self) -> list[int] | None:
        return _ids(self.prompt.token_ids) if self.has_token_ids and self.prompt is not None else None

    def _usage(self) -> CompletionUsage:
        tokens = self.tokens
        return CompletionUsage(
            prompt_tokens=tokens.prompt_tokens,
            completion_tokens=tokens.completion_tokens,
            total_tokens=tokens.prompt_tokens + tokens.completion_tokens,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=tokens.remembered_tokens),
            completion_tokens_details=CompletionTokensDetails(
                reasoning_tokens=sum(choice.reasoning_tokens for choice in self.choices)
            ),
        )


def _ids(token_ids: Sequence[int]) -> list[int]:
    return list(token_ids)
