"""Classify addresses: public internet, or a machine, its network or its cloud."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

# Listed here because the standard library's own lists change with its version.
# Source: the IANA registries of special-purpose addresses of IPv4 and IPv6.
NOT_PUBLIC_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by customers of a carrier; some clouds keep their metadata here
        "127.0.0.0/8",
        "168.63.129.16/32",  # a public address through which Azure's machines reach their own host
        "169.254.0.0/16",  # link-local: the metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocols; Oracle's metadata
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
GLOBAL_UNICAST_V6 = IPv6Network("2000::/3")  # the rest is reserved, local, multicast, or IPv4 in disguise
NOT_PUBLIC_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocols: Teredo, which holds an IPv4 address, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which holds an IPv4 address
        "3fff::/20",  # documentation
    )
)
# credentials of the machine at addresses that are not link-local: Amazon, Google, Alibaba, Oracle, Azure's host
METADATA = frozenset(
    map(ip_address, ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"))
)
NAT64 = IPv6Network("64:ff9b::/96")  # NAT64: all of IPv4 for a network without IPv4


def is_public(address: Address) -> bool:
    """Return whether the address belongs to the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_V4)
    if address in NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in GLOBAL_UNICAST_V6 and not any(address in network for network in NOT_PUBLIC_V6)


def is_of_one_machine(address: Address) -> bool:
    """Return whether the address is link-local to this machine: the cloud's metadata, or no valid target."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or (IPv4Address(int(address) & 0xFFFF_FFFF) if address in NAT64 else None)
        if inner is not None:
            return is_of_one_machine(inner)
    return address in METADATA or address.is_link_local or address.is_unspecified or address.is_multicast


def to_address(text: str) -> Address | None:
    """Return the address from a resolver's answer or a URL's brackets, None if invalid."""
    try:
        return ip_address(text)
    except ValueError:
        return None
