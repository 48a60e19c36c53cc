"""Which platform is meant, and which key it gets."""

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from rft.platform.cli.address import Address, NoAddress, Place, choose, find_address, normalised
from rft.platform.cli.arguments import ApiKey, BaseUrl
from rft.platform.cli.session import session
from rft.platform.embedded.connection import Connection, publish
from rft.platform.settings import settings

NOWHERE = Place(None, None)
OURS = Place("http://ours:2/v1", "our-key")
SDK = Place("https://sdk.example/v1", "sdk-key")
EMBEDDED = Connection(
    base_url="http://127.0.0.1:8787/v1", api_key="embedded-key", dashboard_url="http://127.0.0.1:8787/", pid=1
)


def test_ours_win_then_the_sdks_variables_then_the_embedded_platform() -> None:
    assert choose(OURS, SDK, EMBEDDED) == Address("http://ours:2/v1", "our-key")
    assert choose(NOWHERE, SDK, EMBEDDED) == Address("https://sdk.example/v1", "sdk-key")
    assert choose(NOWHERE, NOWHERE, EMBEDDED) == Address(EMBEDDED.base_url, "embedded-key")


def test_the_embedded_key_serves_whoever_names_the_embedded_platform() -> None:
    said = Place("http://127.0.0.1:8787/", None)
    assert choose(said, NOWHERE, EMBEDDED).api_key == "embedded-key"


def test_a_command_that_passes_the_platform_here_over_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RFT_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sdk-key")
    monkeypatch.delenv("RFT_BASE_URL", raising=False)
    publish(tmp_path, EMBEDDED)
    said = f"asks http://127.0.0.1:1/v1, as OPENAI_BASE_URL says, not {EMBEDDED.base_url}, which runs here\n"
    for named, option, expected in (
        ("http://127.0.0.1:1/v1", None, said),
        ("http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1", ""),
        (EMBEDDED.base_url, None, ""),
        (EMBEDDED.base_url.replace("127.0.0.1", "localhost"), None, ""),
    ):
        monkeypatch.setenv("OPENAI_BASE_URL", named)
        settings.cache_clear()
        err = StringIO()
        with redirect_stderr(err), session(option, None, as_json=True):
            pass
        assert err.getvalue() == expected
    settings.cache_clear()


@pytest.mark.parametrize(
    ("variables", "arguments", "wanted"),
    [
        ({}, ("--base-url", "http://option:1", "--api-key", "option-key"), ("http://option:1/v1", "option-key")),
        ({"RFT_BASE_URL": "http://ours:2", "RFT_API_KEY": "our-key"}, (), ("http://ours:2/v1", "our-key")),
        (
            {"RFT_BASE_URL": "http://ours:2", "RFT_API_KEY": "our-key"},
            ("--base-url", "http://option:1", "--api-key", "option-key"),
            ("http://option:1/v1", "option-key"),
        ),
        (
            {"RFT_BASE_URL": "http://ours:2", "RFT_API_KEY": "our-key"},
            ("--base-url", "http://option:1"),
            ("http://option:1/v1", "our-key"),
        ),
        (
            {"RFT_BASE_URL": "http://ours:2", "OPENAI_BASE_URL": "http://ours:2/v1", "OPENAI_API_KEY": "sdk-key"},
            (),
            ("http://ours:2/v1", "sdk-key"),
        ),
        (
            {"RFT_BASE_URL": "", "RFT_API_KEY": "", "OPENAI_BASE_URL": "http://sdk:3", "OPENAI_API_KEY": "sdk-key"},
            (),
            ("http://sdk:3/v1", "sdk-key"),
        ),
    ],
)
def test_an_option_wins_over_our_variable_which_wins_over_the_sdks(
    variables: dict[str, str],
    arguments: tuple[str, ...],
    wanted: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RFT_BASE_URL", "RFT_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RFT_HOME", str(tmp_path))
    settings.cache_clear()
    app, found = typer.Typer(), list[Address]()

    @app.command()
    def show(base_url: BaseUrl = None, api_key: ApiKey = None) -> None:
        found.append(find_address(base_url, api_key))

    assert CliRunner().invoke(app, arguments, env=variables).exit_code == 0
    settings.cache_clear()
    assert found == [wanted]


@pytest.mark.parametrize("sdk", [Place(None, "sdk-key"), SDK])
def test_the_sdks_key_goes_only_where_the_sdk_points(sdk: Place) -> None:
    with pytest.raises(NoAddress, match="no API key for http://ours:2/v1"):
        choose(Place(OURS.base_url, None), sdk, EMBEDDED)
    assert choose(NOWHERE, Place(None, "sdk-key"), EMBEDDED).api_key == "embedded-key"


def test_nobody_to_talk_to_is_told_with_what_to_do() -> None:
    with pytest.raises(NoAddress, match="rft up"):
        choose(NOWHERE, Place(None, "sdk-key"), None)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("http://host:1", "http://host:1/v1"),
        ("http://host:1/", "http://host:1/v1"),
        ("http://host:1/v1/", "http://host:1/v1"),
        ("https://[::1]:1/proxy/v1", "https://[::1]:1/proxy/v1"),
    ],
)
def test_a_bare_server_means_its_v1(said: str, meant: str) -> None:
    assert normalised(said) == meant


@pytest.mark.parametrize(
    "said",
    ["host:1", "ftp://host/v1", "http://", "http://host:x/v1", "http://[/v1", "http://a:b@host/v1", "http://h/?q"],
)
def test_what_is_no_plain_http_url_is_refused(said: str) -> None:
    with pytest.raises(NoAddress):
        normalised(said)


_places = st.builds(Place, st.sampled_from([None, "http://a", "http://b/v1"]), st.sampled_from([None, "key"]))


@given(_places, st.builds(Place, st.sampled_from([None, "http://a", "http://c"]), st.just("sdk-key")))
def test_no_combination_sends_the_sdks_key_elsewhere(said: Place, sdk: Place) -> None:
    try:
        chosen = choose(said, sdk, EMBEDDED)
    except NoAddress:
        return
    if chosen.api_key == "sdk-key":
        assert sdk.base_url is not None
        assert chosen.base_url == normalised(sdk.base_url)
    if chosen.api_key == "embedded-key":
        assert chosen.base_url == EMBEDDED.base_url
