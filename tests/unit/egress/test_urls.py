"""One parser reads customers' URLs: what it takes is read alike wherever it is used."""

import pytest

from rft.egress.endpoint import endpoint_key
from rft.egress.urls import BadUrl, parse_url


@pytest.mark.parametrize(
    ("text", "origin", "path"),
    [
        ("http://Tools.Example.com", "http://tools.example.com:80", "/"),
        ("https://example.com:8443/a/b?q=1#part", "https://example.com:8443", "/a/b"),
        ("https://example.com:/x", "https://example.com:443", "/x"),
        ("http://example.com:00080/", "http://example.com:80", "/"),
        ("http://my_tool.local.:65535/", "http://my_tool.local.:65535", "/"),
        ("http://[2001:DB8::1]:81/x", "http://[2001:db8::1]:81", "/x"),
        ("http://m\u00fcnchen.example/stra\u00dfe", "http://xn--mnchen-3ya.example:80", "/stra%C3%9Fe"),
        ("http://\u4f8b\u3048.\u30c6\u30b9\u30c8:8080/", "http://xn--r8jz45g.xn--zckzah:8080", "/"),
        ("http://127\u30020\u30020\u30021/", "http://127.0.0.1:80", "/"),
    ],
)
def test_a_url_is_read_as_it_is_called(text: str, origin: str, path: str) -> None:
    parsed = parse_url(text)
    assert (parsed.origin, parsed.path) == (origin, path)
    assert endpoint_key(text) == origin + path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http://example.com:\uff18\uff10\uff18\uff10/", "port"),
        ("http://example.com:\u0668\u0660\u0668\u0660/", "port"),
        ("http://example.com:8_0/", "port"),
        ("http://example.com:+80/", "port"),
        ("http://example.com:-80/", "not a valid URL"),
        ("http://example.com:0/", "port"),
        ("http://example.com:000080/", "port"),
        ("http://[::1]:\uff18\uff10/", "port"),
        ("http://example.com:65536/", "not a valid URL"),
        ("http://\uff45\uff58\uff41\uff4d\uff50\uff4c\uff45.com/", "not a valid URL"),
        ("http://\uff11\uff12\uff17.0.0.1/", "not a valid URL"),
        ("http://exa\u00admple.com/", "control characters"),
        ("http://a..b/", "parts of 1 to 63"),
        ("http://.b/", "parts of 1 to 63"),
        ("http://./", "parts of 1 to 63"),
        (f"http://{'a' * 64}.com/", "parts of 1 to 63"),
        (f"http://{'.'.join(['a' * 60] * 5)}/", "parts of 1 to 63"),
        ("http://a%2eb/", "characters"),
        ("http://a,b/", "characters"),
        ("http://a\\b/", "not a valid URL"),
        ("http://evil.com\\@good.com/", "user name"),
        ("http://\ud800/", "control characters"),
        ("http:example.com/", "host"),
        ("//example.com/", "http"),
    ],
)
def test_what_parsers_disagree_about_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadUrl, match=message):
        parse_url(text)
    assert endpoint_key(text) == text, "what is never called shares no limit"
