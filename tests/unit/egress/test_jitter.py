"""Waits before a retry are drawn by each client for itself."""

import random

from rft.egress.client import HttpClient
from rft.egress.endpoint_client import EndpointClient
from rft.egress.limits import Limits


def test_clients_do_not_wait_in_step_where_the_process_seeds_its_generator() -> None:
    """A trainer does: two with one seed would send to a server that comes back in the same instants."""
    drawn = list[list[float]]()
    for _ in range(2):
        random.seed(7)
        client = EndpointClient(HttpClient(), limits=Limits.fixed(1))
        drawn.append([client.jitter() for _ in range(5)])
    assert drawn[0] != drawn[1]
    assert all(0 <= draw < 1 for draws in drawn for draw in draws)


def test_a_client_leaves_the_generator_of_the_process_alone() -> None:
    random.seed(7)
    untouched = random.random()
    random.seed(7)
    EndpointClient(HttpClient(), limits=Limits.fixed(1)).jitter()
    assert random.random() == untouched
