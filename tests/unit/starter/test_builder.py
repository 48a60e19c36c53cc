"""Building a starter, with a training too short to be any good and gates to match."""

import random
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from rft.starter.builder import Plan, StarterError, build_starter
from rft.starter.encoding import Encoder
from rft.starter.gate import Gate
from rft.starter.player import Batch
from rft.starter.report import StarterReport
from rft.starter.warmup import Schedule, rate

SHORT = Schedule(copy_steps=2, skill_steps=1, habit_steps=1, extra_steps=1)
ANYTHING_GOES = Plan(schedule=SHORT, gate=Gate(accuracy=0, reward_low=0, reward_high=1), traces=4, rollouts=4)
IMPOSSIBLE = Plan(schedule=SHORT, gate=Gate(accuracy=1.1), starts=2, rounds=2, traces=4, rollouts=4)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StarterReport]:
    """One of seed 3."""
    target = tmp_path_factory.mktemp("built") / "deep" / "starter"
    return target, build_starter(target, seed=3, plan=ANYTHING_GOES)


@pytest.mark.lengthy
def test_a_starter_is_a_hugging_face_model_directory(built: tuple[Path, StarterReport]) -> None:
    target, report = built
    model = AutoModelForCausalLM.from_pretrained(target)
    tokenizer = AutoTokenizer.from_pretrained(target)
    assert sum(parameter.numel() for parameter in model.parameters()) == report.parameters
    assert len(tokenizer) == report.vocabulary == model.config.vocab_size
    assert tokenizer.chat_template
    assert model.config.eos_token_id == tokenizer.eos_token_id
    assert StarterReport.model_validate_json((target / "starter.json").read_text()) == report
    assert report.seed == 3
    assert report.rounds == 1
    assert [path.name for path in target.parent.iterdir()] == ["starter"]


@pytest.mark.lengthy
def test_a_failed_gate_leaves_nothing_behind_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(StarterError, match=r"in 4 rounds of training from seed 1; .*value accuracy 0\.\d\d is below"):
        build_starter(tmp_path / "starter", seed=1, plan=IMPOSSIBLE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.lengthy
def test_the_same_seed_gives_the_same_weights_and_an_old_starter_is_replaced_whole(
    built: tuple[Path, StarterReport], tmp_path: Path
) -> None:
    target = tmp_path / "starter"
    target.mkdir()
    (target / "leftover").touch()
    build_starter(target, seed=3, plan=ANYTHING_GOES)
    one, two = (AutoModelForCausalLM.from_pretrained(path).state_dict() for path in (built[0], target))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not (target / "leftover").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["starter"]


def test_batched_play_samples_what_a_plain_forward_pass_says(encoder: Encoder, untrained: LlamaForCausalLM) -> None:
    """Holes in the mask (rows that ended, shorter blocks, dropped rows) change nothing."""
    rng = random.Random(1)

    def block(length: int) -> list[int]:
        return [rng.randrange(10, len(encoder.tokenizer)) for _ in range(length)]

    batch = Batch(untrained, encoder.end_id, 3, 0.0, torch.Generator())
    blocks = [block(5), block(17), block(9)]
    histories = [list(ids) for ids in blocks]
    written = batch.turn(blocks)
    for history, ids in zip(histories, written, strict=True):
        check_greedy(untrained, history, ids)
    batch.keep([0, 2])
    histories = [[*histories[row], *written[row]] for row in (0, 2)]
    # The last sampled token is not in the cache yet: it leads the next block, as the end token does in play.
    more = [[written[0][-1], *block(4)], [written[2][-1], *block(21)]]
    for history, extra, ids in zip(histories, more, batch.turn(more), strict=True):
        check_greedy(untrained, [*history, *extra[1:]], ids)


def check_greedy(model: LlamaForCausalLM, history: list[int], written: list[int]) -> None:
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*history, *written]])).logits[0, len(history) - 1 : -1]
    chosen = logits.gather(1, torch.tensor(written)[:, None])[:, 0]
    assert torch.all(chosen >= logits.max(1).values - 1e-4)


def test_learning_rate_rises_holds_and_falls() -> None:
    rates = [rate(step, 200, 20) for step in range(200)]
    assert rates[0] == 0.05
    assert rates[20:120] == [1.0] * 100
    assert rates[120:] == sorted(rates[120:], reverse=True)
    assert 0.02 <= rates[-1] < 0.04
