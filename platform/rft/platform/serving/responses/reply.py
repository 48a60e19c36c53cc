"""From what a serving process tells to the response, as the official SDK reads it. Pure, given a seal."""

from collections.abc import Callable
from dataclasses import dataclass, field

from rft.platform.serving.responses.items import CALL_NUMBER_LENGTH, ITEM_KEY_LENGTH
from rft.platform.serving.responses.order import ResponseOrder
from rft.platform.serving.responses.schemas import (
    FunctionCallItem,
    FunctionTool,
    IncompleteDetails,
    InputTokensDetails,
    InputTransformation,
    OutputItem,
    OutputMessage,
    OutputText,
    OutputTokensDetails,
    ReasoningConfig,
    ReasoningItem,
    ReasoningText,
    ResponseBody,
    ResponseError,
    ResponseObject,
    ResponseStatus,
    ResponseUsage,
    TextConfig,
)
from rft.platform.serving.told import ToldSoFar
from rft.serving_wire.records import Choice, SampledTurn


@dataclass(slots=True, kw_only=True)
class ResponseReply(ToldSoFar):
    """One response: `take` events, then ask for what it is now."""

    key: str
    """`ITEM_KEY_LENGTH` characters: part of the id of the response and of all its items."""
    created_at: int
    body: ResponseBody
    order: ResponseOrder
    seal: Callable[[SampledTurn], str]
    _sealed: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        assert len(self.key) == ITEM_KEY_LENGTH

    @property
    def choice(self) -> Choice | None:
        """Once it is complete."""
        return self.choices[0] if self.choices else None

    def response(
        self, status: ResponseStatus, output: list[OutputItem], *, error: str | None = None, at: int | None = None
    ) -> ResponseObject:
        """As it is now. `at`: when it was completed."""
        body, request = self.body, self.order.request
        has_ids = bool(body.return_token_ids)
        return ResponseObject(
            id=f"resp_{self.key}",
            created_at=self.created_at,
            completed_at=at if status == "completed" else None,
            status=status,
            error=None if error is None else ResponseError(message=error),
            incomplete_details=IncompleteDetails() if status == "incomplete" else None,
            instructions=body.instructions,
            input_transformations=self._transformations() or None,
            max_output_tokens=body.max_output_tokens,
            metadata=body.metadata or {},
            model=body.model,
            output=output,
            parallel_tool_calls=request.has_parallel_calls,
            reasoning=ReasoningConfig(effort=None if body.reasoning is None else body.reasoning.effort),
            temperature=request.temperature,
            text=TextConfig() if body.text is None or body.text.format is None else TextConfig(format=body.text.format),
            tool_choice=body.tool_choice or "auto",
            tools=[
                FunctionTool(name=tool.name, description=tool.description or None, parameters=tool.parameters)
                for tool in self.order.tools
            ],
            top_p=request.top_p,
            usage=self._usage() if self.choices else None,
            prompt_token_ids=list(self.prompt.token_ids) if has_ids and self.prompt is not None else None,
            token_ids=list(self.choices[0].token_ids) if has_ids and self.choices else None,
        )

    @property
    def end_status(self) -> ResponseStatus:
        """Of the complete choice."""
        return "incomplete" if self.choices[0].finish_reason == "length" else "completed"

    def items(self) -> list[OutputItem]:
        """Of the complete choice: thoughts, text, calls."""
        choice = self.choices[0]
        reasoning: list[OutputItem] = [self.reasoning_item(choice)] if self.has_reasoning(choice) else []
        message: list[OutputItem] = [self.message(choice)] if has_message(choice) else []
        return [*reasoning, *message, *self.calls(choice)]

    def has_reasoning(self, choice: Choice) -> bool:
        """Whether there is an item for thoughts, or for what keeps the turn."""
        return bool(choice.reasoning) or choice.turn is not None

    def reasoning_item(self, choice: Choice) -> ReasoningItem:
        """The whole one."""
        content = [ReasoningText(text=choice.reasoning)] if choice.reasoning else None
        return ReasoningItem(
            id=f"rs_{self.key}", content=content, encrypted_content=self._sealed_turn(choice), status="completed"
        )

    def message(self, choice: Choice) -> OutputMessage:
        """The whole one."""
        is_cut = choice.finish_reason == "length"
        return OutputMessage(
            id=f"msg_{self.key}",
            status="incomplete" if is_cut else "completed",
            content=[OutputText(text=choice.content)],
        )

    def calls(self, choice: Choice) -> list[FunctionCallItem]:
        """All of them."""
        return [
            FunctionCallItem(
                id=f"fc_{self.key}{number:0{CALL_NUMBER_LENGTH}d}",
                call_id=call.call_id,
                name=call.name,
                arguments=call.arguments,
                status="completed",
            )
            for number, call in enumerate(choice.tool_calls)
        ]

    def _sealed_turn(self, choice: Choice) -> str | None:
        if self._sealed is None and choice.turn is not None:
            self._sealed = self.seal(choice.turn)
        return self._sealed

    def _transformations(self) -> list[InputTransformation]:
        withheld = () if self.prompt is None else self.prompt.withheld
        ids = self.order.read.reasoning_ids
        return [
            *self.order.read.transformations,
            *(InputTransformation(id=ids[turn.message], reason=turn.reason) for turn in withheld),
        ]

    def _usage(self) -> ResponseUsage:
        tokens = self.tokens
        return ResponseUsage(
            input_tokens=tokens.prompt_tokens,
            input_tokens_details=InputTokensDetails(cached_tokens=tokens.remembered_tokens),
            output_tokens=tokens.completion_tokens,
            output_tokens_details=OutputTokensDetails(
                reasoning_tokens=sum(choice.reasoning_tokens for choice in self.choices)
            ),
            total_tokens=tokens.prompt_tokens + tokens.completion_tokens,
        )


def has_message(choice: Choice) -> bool:
    """Calls may come without a text; nothing else does."""
    return bool(choice.content) or not choice.tool_calls
