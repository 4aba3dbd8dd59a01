"""kazoo over TLS.

usage: kazoo_tls.py HOST CA WRONG_CA CERTIFICATE_AND_KEY

It connects with the certificate, and is refused without one and where it does not believe the server. It
prints "ok" at the end and exits with status 0. Any error is a traceback and status 1.
"""

import sys

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import CREATOR_ALL_ACL

from kazoo_client import PATIENCE, check

REFUSAL = 2.0  # seconds: kazoo tries again for so long


def client(host, ca, certificate):
    return KazooClient(hosts=host, use_ssl=True, ca=ca, certfile=certificate, keyfile=certificate)


def main(host, ca, wrong_ca, certificate):
    c = client(host, ca, certificate)
    c.start(timeout=PATIENCE)
    c.create("/kazoo", b"x", acl=CREATOR_ALL_ACL)
    acl, _ = c.get_acls("/kazoo")
    check((acl[0].id.scheme, acl[0].id.id) == ("x509", "CN=app.example"), acl)
    check(c.get("/kazoo")[0] == b"x", "data")
    c.stop()
    for what, options in (("no certificate", (ca, None)), ("wrong authority", (wrong_ca, certificate))):
        c = client(host, *options)
        try:
            c.start(timeout=REFUSAL)
        except KazooTimeoutError:
            continue
        finally:
            c.stop()
        raise AssertionError(what + ": connected")
    print("ok", flush=True)


main(*sys.argv[1:])
