"""Only what anybody on the Internet could reach may be reached, and what the operator names."""

import re

import pytest

from core.webhooks.addresses import AllowList, is_public, parsed

INSIDE = """
    0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 127.255.255.254 168.63.129.16 169.254.169.254 172.16.0.1
    172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1
    224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1
    100::1 2001::1 2001:0:7f00:1:: 2001:db8::1 2002:7f00:1::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254
    fe80::1 fe80::1%lo fec0::1 ff02::1 ff0e::1
"""
PUBLIC = "8.8.8.8 1.1.1.1 172.32.0.1 172.15.255.255 11.0.0.1 2606:4700::1111 2a00:1450::1"


@pytest.mark.parametrize("address", INSIDE.split())
def test_what_only_some_can_reach_is_not_public(address):
    assert not is_public(parsed(address))


@pytest.mark.parametrize("address", PUBLIC.split())
def test_what_everybody_can_reach_is_public(address):
    assert is_public(parsed(address))


def test_the_operator_allows_networks_addresses_and_names():
    allow = AllowList.parse(" 10.1.0.0/16, [::1],127.0.0.1 , Hooks.Internal, ")
    assert [allow.holds(parsed(a)) for a in ("10.1.2.3", "::1", "127.0.0.1")] == [True] * 3
    assert not any(allow.holds(parsed(a)) for a in ("10.2.0.1", "127.0.0.2", "::ffff:127.0.0.1"))
    assert allow.names("hooks.internal.")
    assert not allow.names("evil.hooks.internal")


def test_nothing_is_allowed_unless_told():
    assert AllowList.parse("") == AllowList()


@pytest.mark.parametrize("entry", ["10.1.2.3/16", "10.0.0.0/33", "host:8080", "*.internal", "a b"])
def test_an_entry_that_cannot_be_read_is_refused(entry):
    with pytest.raises(ValueError, match=f"'{re.escape(entry)}'"):
        AllowList.parse(f"10.0.0.0/8,{entry}")
