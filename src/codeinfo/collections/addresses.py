"""Which hosts may be asked for documents: those of the public internet, and those that the user named.

An address that comes with a project, a package or a redirect is somebody else's wish. It must not lead to this machine,
its network or a cloud's metadata, which answer whoever asks from here.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from codeinfo.errors import UsageError

SETTING = "trust.private_hosts"
_PORTS = {"http": 80, "https": 443, "ssh": 22}
_NAT64 = 0x64FF9B << 96  # 64:ff9b::/96 carries an IPv4 address in its last 32 bits


class AddressRefused(UsageError):
    code = "ADDRESS_REFUSED"


class Host(Struct, frozen=True):
    """Where an address leads: a name or number, and a port."""

    name: str
    port: int


class Reach(Struct, frozen=True):
    """`hosts` may be asked wherever they are; all others must be public."""

    hosts: frozenset[str] = frozenset()

    def resolve(self, host: Host) -> tuple[str, ...]:
        """The addresses of a host, all of which may be asked. Connect to one of these, not to the name: a second look
        at the name may give another address."""
        try:
            found = socket.getaddrinfo(host.name, host.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise AddressRefused(
                f"{host.name} cannot be looked up: {error}", next_step="Check the address and the network"
            ) from error
        addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
        if host.name.lower() not in self.hosts:
            for address in addresses:
                if not is_public(address):
                    raise AddressRefused(
                        f"{host.name} is {address}, which is not public: only you can have it asked",
                        next_step=f"Add it yourself with `codeinfo docs add`, or add its host to {SETTING} in your"
                        " own settings",
                    )
        return addresses


def is_public(address: str) -> bool:
    """Whether an address belongs to the public internet, also where it carries another one inside."""
    found = ip_address(address.partition("%")[0])
    return found.is_global and not found.is_multicast and all(inner.is_global for inner in _carried(found))


def _carried(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    if isinstance(address, IPv4Address):
        return []
    inside = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if int(address) >> 32 == _NAT64 >> 32:
        inside.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in inside if one is not None]


def host_of(url: str) -> Host:
    """The host that a web address or a git address (`ssh://…`, `git@host:path`) leads to."""
    if "://" not in url:
        name = url.partition(":")[0].rpartition("@")[2]
        return Host(name, _PORTS["ssh"])
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise AddressRefused(f"{url} is no address: {error}", next_step="Check it") from error
    if not name or not port:
        raise AddressRefused(f"{url} names no host", next_step="Check the address")
    return Host(name, port)
