"""The committed dashboard is the one its sources and the API make; needs no node."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
WEB = ROOT / "web"
SRC = WEB / "src"
ASSETS = ROOT / "platform" / "rft" / "platform" / "web_assets"
REBUILD = "run `npm ci && npm run generate && npm run build` in web/ and commit the result"
# As in web/scripts/fingerprint.mjs.
SINGLE_FILES = ("index.html", "package-lock.json", "vite.config.ts")
# Who may import whom: only what stands further down.
LAYERS = {"pages": 0, "components": 1, "data": 1, "lib": 2, "api": 3}
IMPORT = re.compile(r"""(?:from|import)\s+["'](\.{1,2}/[^"']+)["']""")
MAX_LINES = 200


def recorded() -> dict[str, str]:
    return json.loads((ASSETS / "build.json").read_text())


def scripts() -> list[Path]:
    return [path for path in SRC.rglob("*.ts*") if path.name != "schema.d.ts"]


def test_the_build_is_made_from_the_sources() -> None:
    inside = [p for p in SRC.rglob("*") if p.is_file() and ".test." not in p.name and p.parent.name != "testing"]
    paths = sorted([*(p.relative_to(WEB).as_posix() for p in inside), *SINGLE_FILES])
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.encode() + b"\0" + (WEB / path).read_bytes() + b"\0")
    assert recorded()["sources_sha256"] == digest.hexdigest(), f"the built dashboard is stale: {REBUILD}"


@pytest.mark.lengthy
def test_the_types_are_those_of_the_api() -> None:
    dumped = subprocess.run(
        [sys.executable, WEB / "scripts" / "dump_openapi.py"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    assert json.loads((WEB / "openapi.json").read_text()) == json.loads(dumped), f"the API changed: {REBUILD}"
    digest = hashlib.sha256((WEB / "openapi.json").read_bytes()).hexdigest()
    assert recorded()["openapi_sha256"] == digest, f"the built dashboard is stale: {REBUILD}"


def test_every_asset_is_there_and_nothing_is_fetched_from_elsewhere() -> None:
    page = (ASSETS / "index.html").read_text()
    named = re.findall(r'(?:src|href)="(/[^"]+)"', page)
    assert named
    assert all((ASSETS / path.lstrip("/")).is_file() for path in named)
    assert not re.search(r'(?:src|href)="https?://', page)
    styles = "".join(path.read_text() for path in ASSETS.glob("assets/*.css"))
    assert not re.search(r"url\(\s*['\"]?https?:|@import", styles)


def test_lock_files_name_no_registry() -> None:
    for lock in (WEB / "package-lock.json", WEB / "codegen" / "package-lock.json"):
        assert '"resolved": "http' not in lock.read_text()


def test_imports_go_downwards() -> None:
    upwards: list[str] = []
    for path in scripts():
        layer = path.relative_to(SRC).parts[0]
        for target in IMPORT.findall(path.read_text()) if layer in LAYERS else ():
            other = (path.parent / target).resolve().relative_to(SRC.resolve()).parts[0]
            if other != layer and LAYERS.get(other, 9) <= LAYERS[layer]:
                upwards.append(f"{path.relative_to(SRC)} imports {target}")
    assert not upwards


def test_files_stay_readable() -> None:
    long = {str(p.relative_to(WEB)): n for p in scripts() if (n := len(p.read_text().splitlines())) > MAX_LINES}
    assert not long, "a concept is missing where a file grows beyond 200 lines"
