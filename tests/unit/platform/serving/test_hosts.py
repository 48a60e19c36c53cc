"""Hosts that see one `RFT_HOME` have serving processes of their own, at their own loopback addresses."""

import socket
from pathlib import Path
from typing import Any, cast

import pytest

from rft.core.chat_spec import ChatSpec
from rft.platform.serving.processes import ServingProcesses
from rft.platform.serving.served_model import ServedModel
from rft.platform.settings import Settings
from rft.serving.opened_engine import name_at_servers
from rft.serving_wire.endpoint_file import endpoint_file, read_endpoint
from rft.serving_wire.records import ServingEndpoint


def test_no_host_takes_anothers_process_for_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.model_validate({"home": tmp_path})
    served, folders = ServedModel("/models/tiny", ChatSpec(), None), list[Path]()

    def folder_at(host: str) -> Path:
        monkeypatch.setattr(socket, "gethostname", lambda: host)
        folders.append(ServingProcesses(settings, cast(Any, None)).folder_of(served))
        folders[-1].mkdir(parents=True)
        return folders[-1]

    with endpoint_file(folder_at("one"), ServingEndpoint(port=8123, token="t", pid=1)):
        assert read_endpoint(folders[0]) is not None
        assert read_endpoint(folder_at("other")) is None
    # At a vLLM server that both use, neither forgets the other's adapters.
    assert len({name_at_servers(str(folder)) for folder in folders}) == 2
