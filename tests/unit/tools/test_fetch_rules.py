"""The rules of fetching: which addresses are public, in whatever spelling, and what an operator's allowing covers.

Covers: adapters/fetching/addresses, adapters/fetching/allowing, adapters/fetching/bodies, adapters/fetching/messages,
  adapters/fetching/hosts, adapters/fetching/rules, adapters/fetching/targets, adapters/fetching/headers
"""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, IPv6Network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.tools.hostile_urls import HOSTILE, url_of
from turnstone.adapters.fetching.addresses import NOT_PUBLIC_V4, is_public
from turnstone.adapters.fetching.allowing import NOTHING_ALLOWED, Allowed
from turnstone.adapters.fetching.bodies import Body
from turnstone.adapters.fetching.hosts import to_host
from turnstone.adapters.fetching.messages import charset_of, is_accepted, media_type_of
from turnstone.adapters.fetching.rules import checked, resolve_host
from turnstone.adapters.fetching.targets import to_target
from turnstone.domain.errors import FetchFailed, FetchRefused

OTHER_FORMS = [
    str.maketrans("", ""),
    str.maketrans("0123456789.", "０１２３４５６７８９。"),
    str.maketrans("xa", "Xａ"),
]
EMBEDDED: dict[str, Callable[[int], int]] = {
    "mapped": lambda v4: 0xFFFF << 32 | v4,
    "compatible": lambda v4: v4,
    "translated": lambda v4: 0xFFFF << 48 | v4,
    "NAT64": lambda v4: 0x64_FF9B << 96 | v4,
    "local NAT64": lambda v4: 0x64_FF9B_0001 << 80 | v4,
    "6to4": lambda v4: 0x2002 << 112 | v4 << 80 | 1,
    "Teredo": lambda v4: 0x2001_0000 << 96 | v4 << 64 | (v4 ^ 0xFFFF_FFFF),
}

not_public_v4 = st.sampled_from(NOT_PUBLIC_V4).flatmap(
    lambda network: st.integers(int(network[0]), int(network[-1])).map(IPv4Address)
)
# of bytes: Hypothesis prefers small numbers, and those of loaded modules, of which few are public addresses
public_v4 = st.binary(min_size=4, max_size=4).map(IPv4Address).filter(is_public)


@st.composite
def spellings(draw: st.DrawFn, addresses: st.SearchStrategy[IPv4Address]) -> tuple[IPv4Address, str]:
    """Draw an address and one of the ways that hosts of URLs may be written in and are understood as it."""
    address = draw(addresses)
    parts = draw(st.integers(1, 4))
    octets = list(address.packed)
    numbers = [*octets[: parts - 1], int.from_bytes(bytes(octets[parts - 1 :]), "big")]
    zeros = st.integers(0, 6).map(lambda count: "0" * count)
    written = [
        draw(st.sampled_from([f"{number}", f"0x{draw(zeros)}{number:x}", f"0{draw(zeros)}{number:o}"]))
        for number in numbers
    ]
    spelling = ".".join(written) + draw(st.sampled_from(["", "."]))
    return address, draw(st.sampled_from([spelling, spelling.upper(), *(spelling.translate(t) for t in OTHER_FORMS)]))


def refused(url: str, allowed: Allowed = NOTHING_ALLOWED) -> str:
    with pytest.raises(FetchRefused) as raised:
        checked(url, allowed)
    return str(raised.value)


# ---- addresses


@given(spellings(not_public_v4))
@example((IPv4Address("127.0.0.1"), "0177.1"))
def test_every_spelling_of_an_address_that_is_not_public_is_refused(spelt: tuple[IPv4Address, str]) -> None:
    assert "it has no public address" in refused(f"https://{spelt[1]}:8443/")


@given(spellings(public_v4))
def test_every_spelling_of_a_public_address_is_understood_as_that_address(spelt: tuple[IPv4Address, str]) -> None:
    address, spelling = spelt
    target = checked(f"https://{spelling}/", NOTHING_ALLOWED)
    assert (target.host, target.authority) == (address, str(address))


@given(not_public_v4, st.sampled_from(sorted(EMBEDDED)))
def test_an_address_that_is_not_public_is_refused_within_ipv6(address: IPv4Address, how: str) -> None:
    disguised = IPv6Address(EMBEDDED[how](int(address)))
    assert not is_public(disguised)
    assert "it has no public address" in refused(f"https://[{disguised}]/")


@given(st.integers(0, 2**128 - 1).map(IPv6Address))
def test_of_ipv6_only_global_unicast_is_public(address: IPv6Address) -> None:
    assert not is_public(address) or address in IPv6Network("2000::/3") or address in IPv6Network("64:ff9b::/96")


@given(st.one_of(public_v4, st.integers(1 << 125, (1 << 126) - 1).map(IPv6Address).filter(is_public)))
def test_a_public_address_is_global_to_the_standard_library(address: IPv4Address | IPv6Address) -> None:
    assert address.is_global
    assert not address.is_multicast


@pytest.mark.parametrize(
    "text", ["1.1.1.1", "8.8.8.8", "93.184.215.14", "2606:4700::1111", "2a00:1450:4001::1", "64:ff9b::8.8.8.8"]
)
def test_an_address_of_the_internet_is_public(text: str) -> None:
    host = f"[{text}]" if ":" in text else text
    checked(f"https://{host}/", NOTHING_ALLOWED)


@pytest.mark.parametrize(("below", "first", "last", "above"), [
    ("9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
    ("100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"),
    ("126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"),
    ("169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"),
    ("172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"),
    ("192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"),
    ("198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"),
    ("223.255.255.255", "224.0.0.0", "255.255.255.255", None),
])  # fmt: skip
def test_a_private_network_ends_where_it_ends(below: str, first: str, last: str, above: str | None) -> None:
    assert [is_public(IPv4Address(text)) for text in (below, first, last)] == [True, False, False]
    assert above is None or is_public(IPv4Address(above))


# ---- URLs


@pytest.mark.parametrize("url", [
    "https://example.com", "https://example.com/", "HTTPS://Example.COM./a?b=c#d", "https://example.com:443/",
    "https://example.com:8443/a%20b/ü?q=ä&r=[1]", "https://sub_domain.example/", "https://xn--bcher-kva.example/",
])  # fmt: skip
def test_an_ordinary_url_passes(url: str) -> None:
    assert to_target(checked(url, NOTHING_ALLOWED).url) == checked(url, NOTHING_ALLOWED)


def test_a_target_is_written_one_way_only() -> None:
    target = checked("HTTPS://BÜCHER.Example.:443/ü/%7Ea?q=ä#part", NOTHING_ALLOWED, {"a b": "c&d", "e": ["1", "2"]})
    assert target.url == "https://xn--bcher-kva.example/%C3%BC/%7Ea?q=%C3%A4&a+b=c%26d&e=1&e=2"


@given(st.text(max_size=60))
def test_any_text_is_a_url_or_refused(text: str) -> None:
    """A model may write any text: it is refused, or the request has no room for a second line."""
    for url in (text, f"https://{text}", f"https://example.com/{text}"):
        try:
            target = to_target(url)
        except FetchRefused:
            continue
        assert target.url.isascii()
        assert not set(target.url) & set(" \r\n\t\\")
        assert to_target(target.url) == target


def test_a_refusal_shows_neither_credentials_nor_paths_nor_queries() -> None:
    for url in (*(hostile.url for hostile in HOSTILE), "https://user:SECRET@good.test/", "ftp://SECRET@good.test/"):
        try:
            checked(f"{url_of(url, 8443)}/SECRET?SECRET#SECRET", NOTHING_ALLOWED)
            message = ""  # its name has to be looked up first
        except FetchRefused as error:
            message = str(error)
        assert "SECRET" not in message
        assert "latest" not in message


def test_all_addresses_of_a_name_are_judged_together() -> None:
    target = checked("https://mixed.example/", NOTHING_ALLOWED)
    public = ["93.184.215.14", "2606:4700::1111"]
    assert len(resolve_host(target, NOTHING_ALLOWED, lambda host, port: public)) == 2
    for also in ("127.0.0.1", "::1", "::ffff:10.0.0.1", "fe80::1%eth0", "what?"):
        with pytest.raises(FetchRefused):
            resolve_host(target, NOTHING_ALLOWED, lambda host, port, also=also: [*public, also])


# ---- targets that are allowed


def test_an_allowed_target_is_that_host_at_that_port() -> None:
    allowed = Allowed.of([("Intranet.Test", 8080), ("127.0.0.1", 81), ("[::1]", 82)])
    for url in ("http://intranet.test:8080/", "https://INTRANET.test.:8080/", "http://0x7f.1:81/", "http://[0::1]:82/"):
        checked(url, allowed)
    for url in ("http://intranet.test:8081/", "https://127.0.0.1:82/", "http://other.test:8080/", "http://[::1]:81/"):
        refused(url, allowed)


def test_a_name_is_not_allowed_for_meaning_an_allowed_address() -> None:
    allowed = Allowed.of([("10.0.0.5", 8443)])
    target = checked("https://rebinding.test:8443/", allowed)
    with pytest.raises(FetchRefused):
        resolve_host(target, allowed, lambda host, port: ["10.0.0.5"])


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "fe80::1",
        "0.0.0.0",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "fd20:ce::254",
        "64:ff9b::a9fe:a9fe",
        "224.0.0.1",
        "::",
    ],
)
def test_an_allowed_name_does_not_lead_to_the_metadata_of_the_machine(address: str) -> None:
    allowed = Allowed.of([("intranet.test", 8080)])
    target = checked("http://intranet.test:8080/", allowed)
    assert len(resolve_host(target, allowed, lambda host, port: ["10.0.0.5", "127.0.0.1"])) == 2
    with pytest.raises(FetchRefused):
        resolve_host(target, allowed, lambda host, port: ["10.0.0.5", address])


def test_a_url_that_an_operator_sets_is_allowed_with_its_port_only() -> None:
    allowed = NOTHING_ALLOWED.with_url("http://search.intranet.test/api")
    checked("http://search.intranet.test/other", allowed)
    refused("http://search.intranet.test:8080/", allowed)


def test_a_refusal_names_the_setting_that_would_allow_it() -> None:
    """The text is the same for an open, a closed and a filtered port."""
    assert "TURNSTONE_FETCH_ALLOW=127.0.0.1:8080" in refused("https://0x7f.1:8080/a?b")
    assert "TURNSTONE_FETCH_ALLOW=[::1]:443" in refused("https://[::1]/")
    assert "TURNSTONE_FETCH_ALLOW=intranet:80" in refused("http://intranet/")


# ---- bodies and types

RAW = b"of a body that repeats itself " * 40
PACKED = {
    "gzip": gzip.compress(RAW),
    "x-gzip": gzip.compress(RAW),
    "deflate": zlib.compress(RAW),
    "Deflate ": zlib.compress(RAW, wbits=-15),
    "identity": RAW,
}


@given(st.sampled_from(sorted(PACKED)), st.lists(st.integers(1, 40), max_size=40))
def test_any_parts_of_a_body_hold_the_same(encoding: str, sizes: list[int]) -> None:
    body, packed, read = Body(encoding, len(RAW), "x"), PACKED[encoding], b""
    for size in sizes:
        part, packed = packed[:size], packed[size:]
        read += body.feed(part) if part else b""
    read += body.feed(packed) if packed else b""
    body.end()
    assert read == RAW


@pytest.mark.parametrize("encoding", sorted(PACKED))
def test_a_byte_more_than_may_be_is_too_much(encoding: str) -> None:
    with pytest.raises(FetchFailed, match=f"longer than {len(RAW) - 1} bytes"):
        Body(encoding, len(RAW) - 1, "x").feed(PACKED[encoding])


def test_a_compressed_body_that_holds_nothing_has_an_end_too() -> None:
    empty_block = b"\x00\x00\x00\xff\xff"
    with pytest.raises(FetchFailed, match="longer than 1000 bytes"):
        Body("deflate", 1_000, "x").feed(empty_block * 20_000)


def test_a_length_that_is_too_much_is_refused_before_a_byte_comes() -> None:
    with pytest.raises(FetchFailed, match="longer than 1000 bytes"):
        Body(None, 1_000, "x").announce(1_001)
    Body(None, 1_000, "x").announce(1_000)
    Body(None, 1_000, "x").announce(None)


def test_a_bomb_is_not_unpacked_to_find_that_it_is_one() -> None:
    bomb = gzip.compress(bytes(1 << 24), 9)
    tracemalloc.start()
    try:
        with pytest.raises(FetchFailed, match="longer than 1000 bytes"):
            Body("gzip", 1_000, "x").feed(bomb)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("encoding", sorted(set(PACKED) - {"identity"}))
def test_a_compressed_body_that_is_cut_short_or_goes_on_is_broken(encoding: str) -> None:
    short = Body(encoding, len(RAW), "x")
    short.feed(PACKED[encoding][:-3])
    with pytest.raises(FetchFailed, match="broken"):
        short.end()
    with pytest.raises(FetchFailed, match="broken"):
        Body(encoding, len(RAW) * 2, "x").feed(PACKED[encoding] * 2)


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip", "gzip,deflate", "aes128gcm", "*"])
def test_an_unknown_compression_is_refused(encoding: str) -> None:
    with pytest.raises(FetchFailed, match="compressed in a way that was not requested"):
        Body(encoding, 100, "x")


@pytest.mark.parametrize(("header", "media_type", "charset"), [
    ("text/html; charset=UTF-8", "text/html", "utf-8"),
    ('Text/HTML;charset="ISO-8859-1"', "text/html", "iso-8859-1"),
    ("application/json", "application/json", None),
    ("text/plain; charset=idna", "text/plain", None),
    ("text/plain; charset=punycode", "text/plain", None),
    ("text/plain; charset=zlib", "text/plain", None),
    ("text/plain; charset=windows-9999", "text/plain", None),
    ("text/plain, text/html", "", None),
    ("nonsense", "", None),
    ("", "", None),
    (None, "", None),
])  # fmt: skip
def test_a_media_type_is_plain_or_none(header: str | None, media_type: str, charset: str | None) -> None:
    assert (media_type_of(header), charset_of(header)) == (media_type, charset)


def test_accepted_types_may_be_families() -> None:
    assert is_accepted("text/html", ("text/*",))
    assert is_accepted("text/html", ("application/json", "text/html"))
    assert is_accepted("", None)
    assert not is_accepted("application/pdf", ("text/*",))
    assert not is_accepted("", ("text/*",))


def test_hosts_are_names_or_addresses() -> None:
    assert [to_host(text) for text in ("A.b.", "[::1]", "1")] == ["a.b", IPv6Address("::1"), IPv4Address("0.0.0.1")]
