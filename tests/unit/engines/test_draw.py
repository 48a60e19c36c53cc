"""Seeded draws: uniform, independent of the batch, and from the distribution they claim."""

import numpy as np
import pytest
import torch

from rft.engines.draw import draw, uniforms


def test_uniforms_are_a_function_of_seed_and_position() -> None:
    together = uniforms([7, 8, 7, 2**63 - 1], [0, 0, 1, 5])
    assert [float(uniforms([s], [p])[0]) for s, p in [(7, 0), (8, 0), (7, 1), (2**63 - 1, 5)]] == together.tolist()
    assert len(set(together.tolist())) == 4


def test_uniforms_are_uniform_along_seeds_and_along_positions() -> None:
    for many in (uniforms(list(range(20_000)), [3] * 20_000), uniforms([3] * 20_000, list(range(20_000)))):
        assert many.min() >= 0.0
        assert many.max() < 1.0
        counts, _ = np.histogram(many, bins=20, range=(0, 1))
        assert np.sum((counts - 1000) ** 2 / 1000) < 45  # chi-squared, 19 degrees of freedom: p = 0.0007
        assert abs(np.corrcoef(many[:-1], many[1:])[0, 1]) < 0.03


def test_draws_follow_the_scaled_distribution_and_report_its_log_probabilities() -> None:
    logits_V = torch.tensor([0.3, -1.0, 2.0, 0.0, -30.0])
    n = 40_000
    tokens_N, logprobs_N = draw(logits_V.expand(n, 5), [0.7] * n, uniforms(list(range(n)), [0] * n))
    expected_V = torch.log_softmax(logits_V / 0.7, dim=0)
    torch.testing.assert_close(logprobs_N, expected_V[tokens_N])
    shares_V = torch.bincount(tokens_N, minlength=5) / n
    torch.testing.assert_close(shares_V, expected_V.exp(), atol=0.01, rtol=0)


def test_temperature_zero_is_greedy_for_its_row_alone() -> None:
    logits_N_V = torch.tensor([[0.0, 1.0, 3.0], [0.0, 1.0, 3.0]])
    tokens_N, logprobs_N = draw(logits_N_V, [0.0, 1.0], np.array([0.0, 0.0]))
    assert tokens_N.tolist() == [2, 0]
    torch.testing.assert_close(logprobs_N[0], torch.log_softmax(logits_N_V[0], 0)[2])


@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2.0**-53])
def test_impossible_tokens_are_never_drawn_at_the_ends(uniform: float) -> None:
    logits_1_V = torch.tensor([[float("-inf"), 0.0, float("-inf")]])
    assert draw(logits_1_V, [1.0], np.array([uniform]))[0].tolist() == [1]


def test_top_p_leaves_the_fewest_tokens_that_have_the_share_and_their_log_probabilities_as_they_were() -> None:
    logits_V = torch.log(torch.tensor([0.5, 0.1, 0.3, 0.1]))
    n = 20_000
    draws = uniforms(list(range(n)), [0] * n)
    for top_p, kept in (
        (0.0, {0}),
        (0.4, {0}),
        (0.49, {0}),
        (0.51, {0, 2}),
        (0.79, {0, 2}),
        (0.85, {0, 1, 2}),
        (1.0, {0, 1, 2, 3}),
    ):
        tokens_N, logprobs_N = draw(logits_V.expand(n, 4), [1.0] * n, draws, [top_p] * n)
        assert set(tokens_N.tolist()) == kept, top_p
        torch.testing.assert_close(logprobs_N, logits_V[tokens_N])
        if kept == {0, 2}:
            assert abs(float((tokens_N == 0).float().mean()) - 0.5 / 0.8) < 0.02


def test_top_p_of_one_request_changes_no_other() -> None:
    logits_V = torch.tensor([0.3, -1.0, 2.0, 0.0])
    n = 500
    draws = uniforms(list(range(n)), [0] * n)
    alone, _ = draw(logits_V.expand(n, 4), [1.0] * n, draws)
    beside, _ = draw(logits_V.expand(n, 4), [1.0] * n, draws, [0.1 if i % 2 else 1.0 for i in range(n)])
    assert beside[::2].tolist() == alone[::2].tolist()
    assert set(beside[1::2].tolist()) == {2}
