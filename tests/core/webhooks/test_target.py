"""A URL is refused for what it says and for where it leads; and the two are told without a leak."""

import pytest

from core.webhooks.addresses import AllowList
from core.webhooks.target import Refused, target_of

PUBLIC, INSIDE = "8.8.8.8", "10.1.2.3"
OPEN = AllowList()
INNER = AllowList.parse("10.1.0.0/16,hooks.internal")


def at(*addresses):
    return lambda *_: addresses


def unknown(host, port):
    raise OSError(host, port)


def test_a_public_host_is_reached_at_the_addresses_that_were_looked_at():
    target = target_of("https://hooks.example/a?b=c", OPEN, at(PUBLIC, "2606:4700::1111"))
    assert target.addresses == (PUBLIC, "2606:4700::1111")
    assert str(target.url) == "https://hooks.example/a?b=c"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://hooks.example/", "https"),
        ("ftp://hooks.example/", "https"),
        ("file:///etc/passwd", "https"),
        ("hooks.example/a", "https"),
        ("", "https"),
        ("https://", "https"),
        ("https://name:word@hooks.example/", "password"),
        ("https://hooks.example\\@evil.example/", "password"),
        ("https://hooks.example:22/", "port 22"),
        ("https://hooks.example:0/", "port 0"),
        ("https://hooks.example:99999/", "port 99999"),
        ("https://hooks.example/\r\nX: y", "no URL"),
        ("https://hooks.example/" + "a" * 2048, "2048"),
        ("https://\ud800.example/", "no URL"),
    ],
)
def test_a_url_is_refused_for_what_it_says(url, words):
    with pytest.raises(Refused, match=words):
        target_of(url, OPEN, at(PUBLIC))


@pytest.mark.parametrize("port", [443, 8443, 65535])
def test_ports_that_users_may_open_are_reached(port):
    assert target_of(f"https://hooks.example:{port}/", OPEN, at(PUBLIC)).url.host == "hooks.example"


def test_one_address_inside_is_enough_to_refuse_a_host():
    with pytest.raises(Refused, match=r"hooks\.example"):
        target_of("https://hooks.example/", OPEN, at(PUBLIC, INSIDE))


def test_an_unknown_host_and_one_inside_are_told_alike():
    told = []
    for resolve in (unknown, at(), at(INSIDE)):
        with pytest.raises(Refused) as refused:
            target_of("https://hooks.example/", OPEN, resolve)
        told.append(str(refused.value))
    assert len(set(told)) == 1
    assert INSIDE not in told[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "0x7f.1", "2130706433", "[::1]", "[::ffff:7f00:1]"])
def test_no_spelling_of_loopback_gets_through(host):
    with pytest.raises(Refused, match="not on the public Internet"):
        target_of(f"https://{host}/", OPEN)


def test_what_is_allowed_may_be_inside_plain_and_on_any_port():
    assert target_of("http://10.1.2.3:80/", INNER, at(INSIDE)).addresses == (INSIDE,)
    assert target_of("http://hooks.internal:22/", INNER, at("127.0.0.1")).addresses


def test_an_allowed_network_allows_no_other_address_of_the_host():
    with pytest.raises(Refused):
        target_of("https://hooks.example/", INNER, at(INSIDE, "10.2.0.1"))


def test_a_host_that_is_public_and_allowed_in_part_is_held_to_the_rules_of_the_public():
    assert target_of("https://hooks.example/", INNER, at(INSIDE, PUBLIC)).addresses
    with pytest.raises(Refused, match="https"):
        target_of("http://hooks.example/", INNER, at(INSIDE, PUBLIC))
