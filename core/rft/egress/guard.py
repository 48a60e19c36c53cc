"""Address guard: where our calls may go. A name is resolved once, judged, and connected to as judged.

Names are judged in the resolver hook of the transport; IP literals never reach a resolver: they are judged before.
"""

import ipaddress
import re
import socket
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

from rft.core.egress_settings import EgressSettings
from rft.egress.urls import BadUrl, parse_url

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class BlockedAddress(OSError):
    """The guard refuses an address. Permanent: never retried."""


def _networks(*cidrs: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(cidr) for cidr in cidrs)


METADATA = _networks(
    "169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "fd00:ec2::254/128", "fd00:ec2::23/128",
    "fd20:ce::254/128", "100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32", "fe80::a9fe:a9fe/128",
)  # fmt: skip
"""Where clouds hand out credentials of the machine; refused whatever is allowed."""

TUNNELS = _networks("2002::/16", "2001::/32", "::/96", "::ffff:0:0:0/96")
"""6to4, Teredo, IPv4-compatible and IPv4-translated (SIIT) addresses: retired, and each hides an IPv4 address. Refused
whatever is allowed, and so are ISATAP addresses, which have no network of their own."""

NEVER = _networks(
    "0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4", "::/128", "fe80::/10", "ff00::/8",
)  # fmt: skip
"""Unspecified, link-local, multicast, reserved."""

PRIVATE = _networks(
    "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "fc00::/7", "fec0::/10", "100::/64", "2001:db8::/32",
    "64:ff9b:1::/48", "5f00::/16", "3fff::/20", "2001::/23",
)  # fmt: skip
"""Not on the public internet; open only through the allow-list. `is_global` alone forgets several of them."""

_LOOPBACK = _networks("127.0.0.0/8", "::1/128")
_LINK_LOCAL = _networks("fe80::/10")  # clouds keep credentials here, too
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_SIIT = 0xFFFF_0000
_ISATAP, _ISATAP_MASK = 0x0000_5EFE, 0xFCFF_FFFF
"""What stands before the IPv4 address in the lower half of an IPv6 address, but for two bits that say who gave it."""
_UNICAST = _networks("2000::/3")
"""All that is assigned of the public IPv6 internet."""
_CANONICAL_IPV4 = re.compile(r"(\d{1,3})(\.\d{1,3}){3}")


@dataclass(frozen=True)
class AddressPolicy:
    """What the guard lets through."""

    allow_loopback: bool = True
    """Whether endpoints may live on this machine."""
    allow_cidrs: tuple[str, ...] = ()
    """Private networks that endpoints may live in, e.g. `10.1.0.0/16`."""
    require_https: bool = True
    """Whether addresses outside the allow-list need https."""
    ports: frozenset[int] | None = None
    """Ports endpoints may listen on; None for all."""

    @classmethod
    def of(cls, settings: EgressSettings) -> "AddressPolicy":
        """What the operator lets through."""
        return cls(allow_loopback=settings.allow_loopback, allow_cidrs=settings.allow_cidrs)

    @cached_property
    def allowed(self) -> tuple[Network, ...]:
        """The allow-list as networks. Raises ValueError for a malformed entry."""
        return _networks(*self.allow_cidrs) + (_LOOPBACK if self.allow_loopback else ())


OPERATORS_OWN = AddressPolicy(allow_loopback=True, allow_cidrs=("0.0.0.0/0", "::/0"))
"""For addresses that come from the operator and not from a customer."""


def address_problem(address: Address, policy: AddressPolicy, *, is_https: bool) -> str | None:
    """Why this address is refused, or None when it is fine."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address_problem(address.ipv4_mapped, policy, is_https=is_https)
        if address in _NAT64:
            return address_problem(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF), _PUBLIC_ONLY, is_https=is_https)
    if (problem := _problem_whatever_is_allowed(address)) is not None:
        return problem
    if _is_in(address, policy.allowed):
        return None
    return _problem_beyond_the_allow_list(address, policy, is_https=is_https)


def hidden_in(address: Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that a tunnel or translator may read out of an IPv6 address."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    bits, found = int(address), list[int]()
    if address.sixtofour is not None:
        found.append(int(address.sixtofour))
    if address.teredo is not None:
        found.extend(int(end) for end in address.teredo)
    if bits >> 32 in (0, _SIIT) or _is_isatap(address):
        found.append(bits & 0xFFFFFFFF)
    if address in _LOCAL_NAT64:
        # After a prefix of 48, 56, 64 or 96 bits, bits 64 to 71 left out (RFC 6052).
        without_gap = (bits >> 64 << 56) | (bits & ((1 << 56) - 1))
        found.extend((without_gap >> shift) & 0xFFFFFFFF for shift in (40, 32, 24))
        found.append(bits & 0xFFFFFFFF)
    return [ipaddress.IPv4Address(number) for number in found]


def _problem_whatever_is_allowed(address: Address) -> str | None:
    if any(_is_in(inner, METADATA) for inner in (address, *hidden_in(address))):
        return f"{address} is a cloud metadata address; these are never called"
    is_tunnel = (_is_in(address, TUNNELS) and not _is_in(address, _LOOPBACK)) or _is_isatap(address)
    if _is_in(address, _LINK_LOCAL) or is_tunnel:
        return f"{address} is not an address that a server can have"
    return None


def _problem_beyond_the_allow_list(address: Address, policy: AddressPolicy, *, is_https: bool) -> str | None:
    if _is_in(address, _LOOPBACK):
        return f"{address} is this machine itself, which is not on the allow-list"
    if _is_in(address, NEVER):
        return f"{address} is not an address that a server can have"
    if address.version == 6 and not _is_in(address, (*_UNICAST, *PRIVATE)):
        return f"{address} is not an address of the public internet"
    if _is_in(address, PRIVATE) or not address.is_global:
        return f"{address} is a private address; add its network to the allow-list to call it"
    if policy.require_https and not is_https:
        return f"{address} is outside the allow-list and needs https"
    return None


def _is_isatap(address: Address) -> bool:
    return address.version == 6 and (int(address) >> 32) & _ISATAP_MASK == _ISATAP


_PUBLIC_ONLY = AddressPolicy(allow_loopback=False)


def _is_in(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks if network.version == address.version)


def url_problem(url: str, policy: AddressPolicy) -> str | None:
    """Why this URL may not be called, as far as it can be known without resolving its name; None when it is fine."""
    try:
        parsed = parse_url(url)
    except BadUrl as error:
        return str(error)
    if policy.ports is not None and parsed.port not in policy.ports:
        return f"port {parsed.port} is not on the list of allowed ports"
    return _literal_problem(parsed.host, policy, is_https=parsed.scheme == "https")


def _literal_problem(host: str, policy: AddressPolicy, *, is_https: bool) -> str | None:
    if ":" not in host and not _CANONICAL_IPV4.fullmatch(host):
        return "write the IPv4 address as four decimal numbers" if _is_legacy_ipv4(host) else None
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        return f"not a valid address ({error})"
    return address_problem(address, policy, is_https=is_https)


def _is_legacy_ipv4(host: str) -> bool:
    """Whether the system's resolver would read this as an address: 2130706433, 0x7f.1, 127.1, 0177.0.0.1."""
    try:
        socket.inet_aton(host)
    except OSError:
        return host.replace(".", "").isdigit()
    return True


class GuardedResolver(AbstractResolver):
    """Resolver hook: hands out addresses only when every one of them passes. Mixed answers are refused whole."""

    def __init__(self, inner: AbstractResolver, policy: AddressPolicy, *, is_https: bool) -> None:
        self._inner, self._policy, self._is_https = inner, policy, is_https

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Addresses of a host. Raises BlockedAddress, or OSError when the name does not resolve."""
        results = await self._inner.resolve(host, port, family)
        for result in results:
            problem = address_problem(ipaddress.ip_address(result["host"]), self._policy, is_https=self._is_https)
            if problem is not None:
                raise BlockedAddress(f"{host} leads to a blocked address: {problem}")
        return results

    async def close(self) -> None:
        """Free the inner resolver."""
        await self._inner.close()
