"""An adapter's weights and its gradient, as one row of numbers in single precision on the CPU."""

import torch
from torch import Tensor, nn


def trained(model: nn.Module) -> list[nn.Parameter]:
    """What is trained of a model, in an order that all ranks have."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def flat_weights(model: nn.Module) -> Tensor:
    """As they are."""
    return torch.cat([_row(parameter.detach()) for parameter in trained(model)])


def set_weights(model: nn.Module, weights: Tensor) -> None:
    """Those of another rank."""
    parameters = trained(model)
    with torch.no_grad():
        for parameter, part in zip(parameters, _parts(parameters, weights), strict=True):
            parameter.copy_(part)


def flat_gradient(model: nn.Module) -> Tensor:
    """0 where there is none."""
    return torch.cat(
        [
            torch.zeros(parameter.numel()) if parameter.grad is None else _row(parameter.grad)
            for parameter in trained(model)
        ]
    )


def set_gradient(model: nn.Module, gradient: Tensor) -> None:
    """What the optimizer will use. Weights that no rank had a gradient for are left without."""
    parameters = trained(model)
    for parameter, part in zip(parameters, _parts(parameters, gradient), strict=True):
        if parameter.grad is not None:
            parameter.grad.copy_(part)
        elif bool(part.any()):
            parameter.grad = part.to(parameter)


def _row(values: Tensor) -> Tensor:
    return values.reshape(-1).to("cpu", torch.float32)


def _parts(parameters: list[nn.Parameter], row: Tensor) -> list[Tensor]:
    sizes = [parameter.numel() for parameter in parameters]
    return [part.view(p.shape) for p, part in zip(parameters, row.split(sizes), strict=True)]
