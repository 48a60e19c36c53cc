"""What the address guard refuses, in every spelling."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.egress.guard import METADATA, AddressPolicy, BlockedAddress, GuardedResolver, address_problem, url_problem
from rft.testing.names import ScriptedNames

STRICT = AddressPolicy(allow_loopback=False)
EVERYTHING = AddressPolicy(allow_loopback=True, allow_cidrs=("0.0.0.0/0", "::/0"), require_https=False)
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
REFUSED = [
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "100.64.0.1", "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "240.0.0.1", "255.255.255.255", "169.254.1.1", "169.254.169.254", "169.254.170.2", "100.100.100.200",
    "168.63.129.16", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
    "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:4136:e378::", "fc00::1", "fd00::1",
    "fe80::1", "fec0::1", "ff02::1", "2001:db8::1", "100::1", "fd00:ec2::254",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_the_public_internet_is_open_over_https_only(address: str) -> None:
    assert address_problem(ipaddress.ip_address(address), STRICT, is_https=True) is None
    assert "https" in (address_problem(ipaddress.ip_address(address), STRICT, is_https=False) or "")


@pytest.mark.parametrize("address", REFUSED)
def test_everything_else_is_closed(address: str) -> None:
    assert address_problem(ipaddress.ip_address(address), STRICT, is_https=True) is not None


@pytest.mark.parametrize("network", METADATA, ids=str)
def test_metadata_addresses_are_refused_whatever_is_allowed(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network,
) -> None:
    assert "metadata" in (address_problem(network[0], EVERYTHING, is_https=True) or "")
    if isinstance(network, ipaddress.IPv4Network):
        mapped = ipaddress.IPv6Address(f"::ffff:{network[0]}")
        assert address_problem(mapped, EVERYTHING, is_https=True) is not None


def _spellings(v4: ipaddress.IPv4Address) -> list[ipaddress.IPv6Address]:
    number, local = int(v4), int(ipaddress.IPv6Address("64:ff9b:1::"))
    high, low = number >> 16, number & 0xFFFF
    numbers = {
        "mapped": 0xFFFF << 32 | number,
        "compatible": number,
        "nat64": int(ipaddress.IPv6Address("64:ff9b::")) | number,
        "local nat64 /96": local | number,
        "local nat64 /48": local | high << 64 | low << 40,
        "local nat64 /56": local | 0xAA << 72 | number >> 24 << 64 | (number & 0xFFFFFF) << 32,
        "local nat64 /64": local | 0xBBBB << 64 | number << 24,
        "6to4": 0x2002 << 112 | number << 80 | 0x1,
        "teredo server": 0x20010000 << 96 | number << 64,
        "teredo client": 0x20010000 << 96 | 0x08080808 << 64 | number ^ 0xFFFFFFFF,
        "isatap": int(ipaddress.IPv6Address("2a00:1:2:3::")) | 0x5EFE << 32 | number,
        "translated (siit)": 0xFFFF << 48 | number,
        "group isatap": int(ipaddress.IPv6Address("2a00:1:2:3::")) | 0x0300_5EFE << 32 | number,
        "global isatap": int(ipaddress.IPv6Address("2a00:1:2:3::")) | 0x0200_5EFE << 32 | number,
    }
    return [ipaddress.IPv6Address(spelling) for spelling in numbers.values()]


@pytest.mark.parametrize("network", [network for network in METADATA if network.version == 4], ids=str)
def test_no_tunnel_leads_to_a_metadata_address_whatever_is_allowed(network: ipaddress.IPv4Network) -> None:
    for spelling in _spellings(network[0]):
        assert "metadata" in (address_problem(spelling, EVERYTHING, is_https=True) or ""), spelling


@pytest.mark.parametrize("address", ["fe80::1", "fe80::a9fe:a9fe", "febf::1", "2002:808:808::1", "2001::1", "::2"])
def test_link_local_addresses_and_retired_tunnels_are_refused_whatever_is_allowed(address: str) -> None:
    assert address_problem(ipaddress.ip_address(address), EVERYTHING, is_https=True) is not None


@pytest.mark.parametrize(
    "url",
    ["https://[2002:a9fe:a9fe::1]/", "https://[64:ff9b:1::a9fe:a9fe]/", "https://[::a9fe:a9fe]/", "https://[fe80::1]/"],
)
def test_urls_that_hide_the_metadata_address_are_refused_whatever_is_allowed(url: str) -> None:
    assert url_problem(url, EVERYTHING) is not None


def test_the_allow_list_opens_networks_also_without_https() -> None:
    policy = AddressPolicy(allow_loopback=False, allow_cidrs=("10.1.0.0/16", "fd12::/16"))
    for address in ("10.1.2.3", "fd12::5", "::ffff:10.1.2.3"):
        assert address_problem(ipaddress.ip_address(address), policy, is_https=False) is None
    for address in ("10.2.0.1", "fd13::5", "127.0.0.1"):
        assert address_problem(ipaddress.ip_address(address), policy, is_https=True) is not None


def test_loopback_is_open_where_it_is_allowed() -> None:
    for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        assert address_problem(ipaddress.ip_address(address), AddressPolicy(), is_https=False) is None
    assert address_problem(ipaddress.ip_address("64:ff9b::7f00:1"), AddressPolicy(), is_https=False) is not None


def test_a_malformed_allow_list_is_refused() -> None:
    with pytest.raises(ValueError, match="host bits"):
        _ = AddressPolicy(allow_cidrs=("10.1.2.3/8",)).allowed


@given(st.ip_addresses(v=4))
def test_an_embedded_address_is_never_freer_than_itself(address: ipaddress.IPv4Address) -> None:
    plain = address_problem(address, STRICT, is_https=True)
    for spelling in (f"::ffff:{address}", f"64:ff9b::{address}", f"::{address}"):
        if plain is not None:
            assert address_problem(ipaddress.ip_address(spelling), STRICT, is_https=True) is not None


@given(st.one_of(st.sampled_from(REFUSED).map(ipaddress.ip_address), st.ip_addresses(v=4)))
def test_no_spelling_of_a_refused_address_is_open(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if isinstance(address, ipaddress.IPv6Address) or address_problem(address, STRICT, is_https=True) is None:
        return
    for spelling in _spellings(address):
        assert address_problem(spelling, STRICT, is_https=True) is not None, spelling
        assert url_problem(f"https://[{spelling}]/", STRICT) is not None, spelling


@given(st.ip_addresses(v=6))
def test_only_what_is_assigned_of_the_ipv6_internet_is_open(address: ipaddress.IPv6Address) -> None:
    if address_problem(address, STRICT, is_https=True) is None:
        assert address.ipv4_mapped or address in ipaddress.ip_network("2000::/3") or str(address).startswith("64:ff9b:")


@pytest.mark.parametrize("address", ["::ffff:0:808:808", "2a00::5efe:808:808", "2a00::200:5efe:808:808"])
def test_retired_tunnels_are_refused_whatever_they_lead_to(address: str) -> None:
    for policy in (STRICT, EVERYTHING):
        assert address_problem(ipaddress.ip_address(address), policy, is_https=True) is not None


@given(st.ip_addresses())
def test_what_python_calls_not_global_is_never_open(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if address_problem(address, STRICT, is_https=True) is None and address not in ipaddress.ip_network("64:ff9b::/96"):
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        assert (mapped or address).is_global


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://2130706433/", "four decimal numbers"),
        ("http://0x7f000001/", "four decimal numbers"),
        ("http://0x7f.1/", "four decimal numbers"),
        ("http://017700000001/", "four decimal numbers"),
        ("http://127.1/", "four decimal numbers"),
        ("http://0177.0.0.1/", ""),
        ("http://127.0.0.1.5/", "four decimal numbers"),
        ("https://10.0.0.1/x", "private"),
        ("https://[::1]/", "this machine"),
        ("https://[::ffff:169.254.169.254]/", "metadata"),
        ("https://[fe80::1%25eth0]/", "characters"),
        ("https://exa mple.com/", "characters"),
        ("http://169.254.169.254/latest/meta-data/", "metadata"),
        ("https://user:secret@example.com/", "user name"),
        ("https://user@example.com/", "user name"),
        ("ftp://example.com/", "http"),
        ("file:///etc/passwd", "http"),
        ("example.com/tool", "http"),
        ("https:///tool", "host"),
        ("", "http"),
        ("https://[::1", "not a valid URL"),
        ("https://example.com:99999/", "not a valid URL"),
    ],
)
def test_bad_urls_are_told_apart_in_words(url: str, message: str) -> None:
    problem = url_problem(url, STRICT)
    assert problem is not None
    assert message in problem
    assert "secret" not in problem


def test_good_urls_pass() -> None:
    for url in ("https://example.com/tool?x=1", "https://8.8.8.8:8443/", "http://a-name-to-be-resolved:8000/tool"):
        assert url_problem(url, STRICT) is None


def test_only_listed_ports_are_open() -> None:
    policy = AddressPolicy(ports=frozenset({443}))
    assert url_problem("https://example.com/", policy) is None
    assert url_problem("https://example.com:22/", policy) is not None


@given(st.text(max_size=40))
def test_no_text_breaks_the_check(text: str) -> None:
    for url in (text, f"http://{text}", f"https://{text}/x"):
        problem = url_problem(url, STRICT)
        assert problem is None or isinstance(problem, str)


async def test_the_resolver_hands_out_good_addresses() -> None:
    resolver = GuardedResolver(ScriptedNames(("8.8.8.8", "1.1.1.1")), STRICT, is_https=True)
    assert [result["host"] for result in await resolver.resolve("example.com", 443)] == ["8.8.8.8", "1.1.1.1"]


async def test_one_bad_address_spoils_the_name() -> None:
    resolver = GuardedResolver(ScriptedNames(("8.8.8.8", "10.0.0.1")), STRICT, is_https=True)
    with pytest.raises(BlockedAddress, match=r"example\.com leads to a blocked address"):
        await resolver.resolve("example.com", 443)


async def test_a_public_name_needs_https() -> None:
    with pytest.raises(BlockedAddress, match="needs https"):
        await GuardedResolver(ScriptedNames("8.8.8.8"), STRICT, is_https=False).resolve("example.com", 80)
