"""The clients of customers' endpoints that a process opens, for a look at what they keep to."""

from typing import Any

import pytest

from rft.egress.endpoint_client import EndpointClient


def opened_clients(monkeypatch: pytest.MonkeyPatch) -> list[EndpointClient]:
    """All that are opened from here on."""
    opened: list[EndpointClient] = []
    open_client = EndpointClient.open

    def remembered(*args: Any, **more: Any) -> EndpointClient:
        opened.append(open_client(*args, **more))
        return opened[-1]

    monkeypatch.setattr(EndpointClient, "open", remembered)
    return opened
