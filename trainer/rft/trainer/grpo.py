"""The one file that knows TRL: its loss, loop, optimizer and checkpoints, fed with finished, graded rollouts.

Only where the batch comes from is ours. TRL's own dataset is a row of blanks that sets the number of steps; every
optimizer step asks the source for training rows, and takes them in micro-batches of similar length, each within a
budget of tokens. To TRL a step is one batch, so denominators are the step's own: into how many parts it is cut changes
no gradient but that of the balance between experts. For the same reason ranks add up to it, however rows are dealt
to them: each computes a part of one step, as if it were alone, and rank 0 sums the parts.

Batches are padded on the right alone and the padding is excluded by the loss mask, not by attention: tokens see only
what stands before them, so it reaches nobody, and positions are those the sampler used.

Where a mixture of experts orders a loss that balances its experts, it is taken over the positions that predict sampled
tokens and no others: prompts, tool outputs, padding and excluded rollouts have no say in it either.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from datasets import Dataset
from torch import Tensor, nn
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    Trainer,
    set_seed,
)
from transformers.modeling_outputs import BaseModelOutputWithPast
from trl.trainer.grpo_trainer import GRPOTrainer

from rft.core.step_record import Optimization
from rft.engines.base_model import without_router_logits
from rft.trainer.batch_tensors import batch_tensors
from rft.trainer.checkpoints import require_room_for_next
from rft.trainer.head_logprobs import small_chunks_without_triton
from rft.trainer.heap import return_freed_pages
from rft.trainer.losses import (
    Weights,
    importance_ratios,
    importance_weights,
    kl_divergences,
    ratio_level,
    share_of_step,
    token_shares,
)
from rft.trainer.micro_batches import PASS_TOKENS, PASS_TOKENS_CUDA, micro_batches
from rft.trainer.policy import lora_config, set_checkpointing
from rft.trainer.ranks.other_ranks import OtherRanks
from rft.trainer.ranks.sharded_base import out_of_memory
from rft.trainer.samples import TrainingRow
from rft.trainer.step_figures import StepFigures
from rft.trainer.step_hooks import OnSaved, StepHooks
from rft.trainer.token_budget import free_bytes, halved, is_out_of_memory, kept_bytes, tokens_within
from rft.trainer.token_ratios import row_ratios
from rft.trainer.update_settings import UpdateSettings, to_grpo_config

_PROBE_TOKENS = 64

Source = Callable[[int], Sequence[TrainingRow]]
"""Training rows of a step, numbered from 1. Called once per step, before the update; may be empty."""
BeforeUpdate = Callable[[int, Optimization], None]
"""Called with the step and its figures, all but the gradient's norm; keeps the weights as they are by raising."""


class PolicyTrainer(GRPOTrainer):
    """A `GRPOTrainer` whose rows come from a source instead of its own generation."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        settings: UpdateSettings,
        *,
        output_dir: Path,
        source: Source,
        on_saved: OnSaved,
        before_update: BeforeUpdate = lambda step, optimization: None,
        check: Callable[[], None] = lambda: None,
        is_over: Callable[[], bool] = lambda: False,
        ranks: OtherRanks | None = None,
        computing: Callable[[], AbstractContextManager[None]] = nullcontext,
        most: Callable[[int], int] = lambda passes: passes,
    ) -> None:
        """`check` is called before each micro-batch, and stops the run by raising; `is_over` after each step.

        `ranks`: those that compute the gradient with us; None: we are alone. `computing`: entered for as long as a
        gradient is computed. `most`: of the passes that each rank has to make, where all make the same number.
        """
        logging.getLogger("trl").setLevel(logging.ERROR)  # Its warnings quote whole rows: customers' data.
        set_seed(settings.seed % 2**32)  # The adapter's first weights depend on it.
        super().__init__(
            model=without_router_logits(model),
            reward_funcs=_never_called,
            args=to_grpo_config(settings, output_dir),
            train_dataset=Dataset.from_dict({"prompt": [""] * settings.steps}),
            processing_class=tokenizer,
            peft_config=lora_config(model, settings.lora),
        )
        # By this name TRL counts experts. Llama 4 has another, and its router chooses by no softmax, as that loss does.
        self.aux_loss_enabled &= hasattr(model.config.get_text_config(), "num_experts")
        self._source, self._before_update, self._check, self._ranks = source, before_update, check, ranks
        self._computing, self._most = computing, most
        self.current_gradient_accumulation_steps = 1  # Ranks that only compute never come to where it is set.
        self._settings, self._budget = settings, settings.micro_batch_tokens
        self.figures = StepFigures()
        self._is_sampled = torch.empty(0, dtype=torch.bool)
        """Of the micro-batch in work, aligned with everything after the first token."""
        self._last = torch.empty(0), torch.empty(0)
        """Log-probabilities and entropies of the same."""
        self._inputs_in_work: dict[str, Tensor] = {}
        self.use_vllm = settings.is_weighted  # To TRL's loss: weigh each token by `importance_sampling_ratio`.
        self.remove_callback(PrinterCallback)
        self.add_callback(StepHooks(self, on_saved, is_over))

    def training_step(
        self, model: nn.Module, inputs: dict[str, Tensor | Any], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """One optimizer step's gradient over the source's rows. Raises RunFailed where they do not fit into memory."""
        del inputs
        rows, ranks = list(self._source(self.state.global_step + 1)), self._ranks
        known = StepFigures.before(rows)
        with self._computing() if rows else nullcontext():
            if ranks is None or not rows:
                loss = self.add_gradient(model, rows, known, num_items_in_batch)
            else:
                with ranks.computing():
                    self.add_gradient(model, ranks.hand_out(model, rows, known), known, num_items_in_batch)
                    ranks.take_in(model, self.figures)
                loss = torch.tensor(self.figures.loss, device=self.accelerator.device)
            self.give_memory_back()
        self._before_update(self.state.global_step + 1, self.figures.optimization())
        return loss

    def add_gradient(
        self,
        model: nn.Module,
        rows: Sequence[TrainingRow],
        known: StepFigures,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """The loss of some rows of a step, and their part of its gradient. Raises RunFailed.

        `known`: of the whole step. What ran out of memory is done again with half the budget of tokens.
        """
        while (loss := self._accumulated(model, rows, known, num_items_in_batch)) is None:
            model.zero_grad()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        return loss

    def make_pass(self, model: nn.Module) -> None:
        """One that gives nothing, beside another rank's: it needs the parts that we keep of the base model's layers."""
        ids = torch.zeros((1, 2), dtype=torch.long, device=self.accelerator.device)
        self._is_sampled = torch.ones_like(ids[:, 1:], dtype=torch.bool)
        logprobs, *_ = self._get_per_token_logps_and_entropies(model, ids, torch.ones_like(ids), 1)
        if logprobs.requires_grad:
            self.accelerator.backward(logprobs.sum() * 0)

    def _keep_company(self, model: nn.Module) -> None:
        """A micro-batch of another rank's."""
        if self._settings.beta:
            with torch.no_grad():
                self.make_pass(model)
        self.make_pass(model)

    def give_memory_back(self) -> None:
        """What is only kept for the next pass, where somebody else needs it until then."""
        if self._settings.gives_memory_back and torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _accumulated(
        self, model: nn.Module, rows: Sequence[TrainingRow], known: StepFigures, num_items_in_batch: Tensor | int | None
    ) -> Tensor | None:
        """The loss over all micro-batches, each of which adds to the gradient; None where memory ran out."""
        self.figures = replace(known, ratios=[])
        if self._settings.is_sharded and not known.rows:  # No rank makes a pass.
            return torch.zeros((), device=self.accelerator.device)
        device, budget = self.accelerator.device, self._found_budget(model)
        total, pass_tokens = torch.zeros((), device=device), PASS_TOKENS_CUDA if device.type == "cuda" else PASS_TOKENS
        batches = micro_batches(rows, budget, pass_tokens=pass_tokens)
        idle = self._most(len(batches)) - len(batches)
        for batch in batches if batches or self._settings.is_sharded else [[]]:
            self._check()
            if device.type == "cpu":
                return_freed_pages()
            share = budget / batch[0].tokens if batch else 1.0
            kept_layers = set_checkpointing(self._base_model(model), share=share)
            try:
                total += super().training_step(model, self._inputs(batch), num_items_in_batch)
                if self._settings.keeps_ratios:
                    self.figures.ratios += row_ratios(batch, self._last[0])
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                if self._settings.is_sharded:
                    raise out_of_memory(budget) from error
                self._budget = halved(budget, batch, is_least=share < 1 and kept_layers == 0)
                return None
        for _ in range(idle):
            self._check()
            self._keep_company(model)
        return total

    def _found_budget(self, model: nn.Module) -> int:
        """Tokens of a micro-batch; found once, by a pass over a few of them."""
        if self._budget is None:
            device = self.accelerator.device
            ids = torch.zeros((1, _PROBE_TOKENS), dtype=torch.long, device=device)
            self._is_sampled = torch.ones_like(ids[:, 1:], dtype=torch.bool)
            model.train()
            with kept_bytes(model) as kept:
                found = self._get_per_token_logps_and_entropies(model, ids, torch.ones_like(ids), _PROBE_TOKENS - 1)
                ours = free_bytes(device) // (1 if device.type == "cuda" else self._settings.ranks_on_host)
                self._budget = tokens_within(ours, kept() // _PROBE_TOKENS, device)
                del found
        return self._budget

    def _base_model(self, model: nn.Module) -> PreTrainedModel:
        """What the adapter is around."""
        return self.accelerator.unwrap_model(model).get_base_model()

    def _prepare_inputs(self, generation_batch: dict[str, Tensor | Any]) -> dict[str, Tensor | Any]:
        """A micro-batch is whole as it is: nothing is generated here."""
        return generation_batch

    def _inputs(self, rows: Sequence[TrainingRow]) -> dict[str, Tensor]:
        pad_id = cast(int, self._tokenizer.pad_token_id)
        inputs = batch_tensors(rows, pad_id=pad_id, step_tokens=self.figures.tokens)
        return {name: tensor.to(self.accelerator.device) for name, tensor in inputs.items()}

    def _get_per_token_logps_and_entropies(
        self, model: nn.Module, input_ids: Tensor, attention_mask: Tensor, logits_to_keep: int, **_: Any
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """As TRL's, but only sampled tokens go through the language model head: a third of the step's time.

        What is found is kept for the figures, so that they cost no pass of their own.
        """
        is_wanted = self._is_sampled if bool(self._is_sampled.any()) else torch.ones_like(self._is_sampled)

        def keep_wanted(module: nn.Module, args: Any, outputs: BaseModelOutputWithPast) -> BaseModelOutputWithPast:
            assert outputs.last_hidden_state is not None
            outputs["last_hidden_state"] = outputs.last_hidden_state[:, :-1][is_wanted][None]
            if (router_logits := outputs.get("router_logits")) is not None:
                outputs["router_logits"] = tuple(_at(layer, is_wanted) for layer in router_logits)
            return outputs

        backbone = self._base_model(model).base_model
        hook = backbone.register_forward_hook(keep_wanted)
        # A mask of ones says no more than none, and TRL would lay it over the router logits that were picked already.
        balanced = {"attention_mask": None, "output_router_logits": True} if self.aux_loss_enabled else {}
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, **balanced}
        try:
            with small_chunks_without_triton(input_ids.device):
                found = model(**inputs, shift_labels=input_ids[:, 1:][is_wanted][None], fused_lm_head=True)
        finally:
            hook.remove()
        logprobs, entropies = (
            values.new_zeros(is_wanted.shape).masked_scatter(is_wanted, values[0])
            for values in (found.log_probs, found.entropy)
        )
        self._last = logprobs.detach(), entropies.detach()
        if self._inputs_in_work:
            self._inputs_in_work["importance_sampling_ratio"] = self._weights(self._inputs_in_work).weights_B_T
            if self._settings.beta:
                self._inputs_in_work["kl_divergences"] = self._kl_divergences(logprobs, self._inputs_in_work)
        return logprobs, entropies, found.aux_loss * self._share_of_tokens() if self.aux_loss_enabled else None

    def _weights(self, inputs: dict[str, Tensor]) -> Weights:
        """What each sampled token weighs where anything is weighted."""
        sampler, settings = inputs["sampling_per_token_logps"], self._settings
        ratios_B_T = importance_ratios(ratio_level(settings.loss_type), self._last[0], sampler, inputs["tool_mask"])
        return importance_weights(settings.loss_type, ratios_B_T, inputs["advantages"], settings.clip)

    def _kl_divergences(self, logprobs_B_T: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        """Of each sampled token, with gradient; weighted by its own ratio where anything is weighted."""
        now, sampler = self._last[0], inputs["sampling_per_token_logps"]
        weighted = self._settings.is_weighted
        ratios_B_T = importance_ratios("token", now, sampler if weighted else now, inputs["tool_mask"])
        return kl_divergences(self._settings.loss_type, logprobs_B_T, inputs["base_logprobs"], ratios_B_T)

    def _kl_loss(self, inputs: dict[str, Tensor]) -> Tensor:
        """This micro-batch's part of the step's KL term, taken together as the loss's own terms are."""
        shares_B_T = token_shares(
            self._settings.loss_type,
            inputs["tool_mask"],
            step_rows=self.figures.rows,
            step_tokens=self.figures.tokens,
            max_tokens=self._settings.max_completion_tokens,
        )
        return self._settings.beta * (inputs["kl_divergences"] * shares_B_T).sum()

    def _reference_logprobs(self, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        """Log-probabilities of the base model: the same one, without its adapter."""
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        with torch.no_grad(), self.accelerator.unwrap_model(model).disable_adapter():
            return self._get_per_token_logps_and_entropies(model, ids, torch.ones_like(ids), ids.shape[1] - 1)[0]

    def _share_of_tokens(self) -> float:
        """What the balance of this micro-batch counts beside its loss, where TRL takes all batches as equal."""
        return float(self._is_sampled.sum()) / max(self.figures.tokens, 1) / self._share_of_step()

    def _share_of_step(self) -> float:
        """What this micro-batch's loss counts in the step's."""
        figures, rows = self.figures, len(self._is_sampled)
        if not figures.rows:
            return 1.0
        return share_of_step(
            self._settings.loss_type,
            rows=rows,
            tokens=int(self._is_sampled.sum()),
            step_rows=figures.rows,
            step_tokens=figures.tokens,
        )

    def _compute_loss(self, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        """TRL's loss as part of the step's and our KL term, and the step's figures on the side."""
        self._is_sampled = inputs["tool_mask"].bool()
        if self._settings.beta:
            inputs["base_logprobs"] = self._reference_logprobs(model, inputs)
        self._inputs_in_work = inputs
        try:
            loss = super()._compute_loss(model, inputs) * self._share_of_step()
        finally:  # Memory may have run out, and the next pass is another micro-batch's.
            self._inputs_in_work = {}
        logprobs, entropies = self._last
        mask, figures = inputs["tool_mask"], self.figures
        if self._settings.beta:
            loss = loss + self._kl_loss(inputs)
            figures.kl_sum += float((inputs["kl_divergences"].detach() * mask).sum())
        figures.loss += float(loss.detach())
        figures.entropy_sum += float((entropies * mask).sum())
        figures.logprob_gap_sum += float(((logprobs - inputs["sampling_per_token_logps"]).abs() * mask).sum())
        weights = self._weights(inputs)
        figures.truncated += int(weights.is_truncated_B_T.sum())
        figures.clipped += int(weights.is_clipped_B_T.sum())
        return loss

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """The Trainer's checkpoint without TRL's model card."""
        require_room_for_next(Path(str(self.args.output_dir)))
        Trainer._save_checkpoint(self, model, trial)

    @property
    def policy(self) -> nn.Module:
        """The model in training, adapter included."""
        assert self.model is not None
        return self.model

    def checkpoint_of(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        return Path(str(self.args.output_dir)) / f"checkpoint-{step}"

    def save_baseline(self) -> Path:
        """The untrained adapter as the checkpoint of step 0: its weights alone, there is nothing else to resume."""
        self.save_model(str(self.checkpoint_of(0)))
        return self.checkpoint_of(0)


def _at(router_logits: Tensor, is_wanted_B_T: Tensor) -> Tensor:
    """One layer's router logits (B x (T + 1), experts) at the wanted positions."""
    rows, tokens = is_wanted_B_T.shape
    return router_logits.reshape(rows, tokens + 1, -1)[:, :-1][is_wanted_B_T]


def _never_called(prompts: list[str], **_: Any) -> list[float | None]:
    raise AssertionError("rollouts come graded; TRL's reward functions are not used")
