"""Logins by Kerberos with kazoo, which uses MIT's library and the keytab of KRB5_CLIENT_KTNAME.

usage: kazoo_kerberos.py HOST NAME ...

NAME is the identity that the server at HOST gives the client. It prints "ok" at the end, waits for "go" and exits with status 0.
Any error is a traceback and status 1.
"""

import logging
import sys

from kazoo.client import KazooClient
from kazoo.security import make_acl

from kazoo_cases import pause
from kazoo_client import PATIENCE, check


def main():
    logging.basicConfig(level=logging.CRITICAL)
    pairs = sys.argv[1:]
    for host, name in zip(pairs[::2], pairs[1::2]):
        client = KazooClient(hosts=host, timeout=10.0, sasl_options={"mechanism": "GSSAPI", "service": "zookeeper", "principal": "bob@EXAMPLE.COM"})
        client.start(timeout=PATIENCE)
        client.create("/kazoo", b"x", acl=[make_acl("auth", "", all=True)], ephemeral=True)
        got = [(a.id.scheme, a.id.id) for a in client.get_acls("/kazoo")[0]]
        check(got == [("sasl", name)], got)
        client.stop()
    pause("ok")


if __name__ == "__main__":
    main()
