"""How many parameters a model has, from the heads of its weight files."""

import json
from pathlib import Path

from rft.platform.worker.model_size import model_parameters


def write_weights(file: Path, **shapes: list[int]) -> None:
    head = {name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    content = json.dumps({"__metadata__": {"format": "pt"}, **head}).encode()
    file.write_bytes(len(content).to_bytes(8, "little") + content + b"weights")


def test_all_files_of_a_model_are_counted(tmp_path: Path) -> None:
    write_weights(tmp_path / "model-00001-of-00002.safetensors", embedding=[100, 8], scale=[])
    write_weights(tmp_path / "model-00002-of-00002.safetensors", head=[8, 100])
    assert model_parameters(str(tmp_path)) == 100 * 8 + 1 + 8 * 100


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    assert model_parameters("lab/on-a-hub") is None
    assert model_parameters(str(tmp_path)) is None
    for content in (b"", b"\xff" * 20, (4).to_bytes(8, "little") + b"null", (2).to_bytes(8, "little") + b"[]"):
        (tmp_path / "model.safetensors").write_bytes(content)
        assert model_parameters(str(tmp_path)) is None
