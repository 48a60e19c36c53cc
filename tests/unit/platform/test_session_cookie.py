"""Which requests of a browser are our own pages', and what the cookie of a session is called."""

import pytest
from starlette.datastructures import Headers
from starlette.responses import Response

from rft.platform.api.errors import Forbidden
from rft.platform.api.session_cookie import drop_cookie, read_cookie, refuse_foreign, set_cookie

HOST = "platform.example:8787"


def headers(**given: str) -> Headers:
    return Headers({"host": HOST, **{name.replace("_", "-"): value for name, value in given.items()}})


@pytest.mark.parametrize(
    "sent",
    [
        {"origin": f"http://{HOST}"},
        {"origin": f"https://{HOST}"},
        {"origin": "http://PLATFORM.example:8787", "sec_fetch_site": "same-origin"},
        {"origin": f"https://{HOST}", "cookie": "__Host-rft_session_8787=x"},
    ],
)
def test_a_write_of_our_own_page_is_taken(sent: dict[str, str]) -> None:
    refuse_foreign("POST", headers(**sent))


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"origin": ""},
        {"origin": "null"},
        {"origin": "http://platform.example"},
        {"origin": "http://platform.example:8788"},
        {"origin": f"http://{HOST}.evil.example"},
        {"origin": f"http://evil.example@{HOST}"},
        {"origin": f"ftp://{HOST}"},
        {"origin": HOST},
        {"origin": "http://[evil"},
        {"origin": f"http://{HOST}", "sec_fetch_site": "same-site"},
        {"origin": f"http://{HOST}", "cookie": "__Host-rft_session_8787=x"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
def test_any_other_write_is_refused(method: str, sent: dict[str, str]) -> None:
    with pytest.raises(Forbidden):
        refuse_foreign(method, headers(**sent))


def test_a_request_without_a_host_has_no_origin_of_its_own() -> None:
    with pytest.raises(Forbidden):
        refuse_foreign("POST", Headers({"origin": "http://"}))


@pytest.mark.parametrize(
    ("site", "is_ours"), [("same-origin", True), ("none", True), ("same-site", False), ("cross-site", False)]
)
def test_reading_needs_no_origin_but_no_other_page_either(site: str, is_ours: bool) -> None:
    refuse_foreign("GET", headers())
    if is_ours:
        refuse_foreign("GET", headers(sec_fetch_site=site))
    else:
        with pytest.raises(Forbidden):
            refuse_foreign("GET", headers(sec_fetch_site=site))


def test_over_https_the_cookie_is_secure_and_bound_to_its_host() -> None:
    response = Response()
    set_cookie(response, headers(origin=f"https://{HOST}"), "t0ken", max_age_s=60.5)
    assert response.headers["set-cookie"] == (
        "__Host-rft_session_8787=t0ken; HttpOnly; Max-Age=60; Path=/; SameSite=strict; Secure"
    )


def test_platforms_of_one_host_do_not_take_each_others_cookies() -> None:
    both = {"cookie": "rft_session_8787=a; rft_session_9000=b"}
    assert read_cookie(Headers({"host": "127.0.0.1:8787", **both})) == "a"
    assert read_cookie(Headers({"host": "[::1]:9000", **both})) == "b"
    assert read_cookie(Headers({"host": "127.0.0.1", **both})) is None
    response = Response()
    set_cookie(response, headers(origin=f"http://{HOST}"), "t0ken", max_age_s=60)
    assert response.headers["set-cookie"].startswith("rft_session_8787=t0ken; HttpOnly; Max-Age=60;")
    assert "Secure" not in response.headers["set-cookie"]


def test_signing_out_forgets_either_cookie() -> None:
    response = Response()
    drop_cookie(response, headers())
    dropped = response.headers.getlist("set-cookie")
    assert [cookie.split("=")[0] for cookie in dropped] == ["rft_session_8787", "__Host-rft_session_8787"]
    assert all("Max-Age=0" in cookie for cookie in dropped)
