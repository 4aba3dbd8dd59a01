"""Logins by SASL with kazoo, on a server with the users of sasl_test.go.

usage: kazoo_sasl.py OPEN REQUIRED

OPEN is a server on which clients may log in, and REQUIRED one on which they must. It prints "ok" at
the end, waits for "go" and exits with status 0. Any error is a traceback and status 1.
"""

import logging
import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import make_acl

from kazoo_cases import pause
from kazoo_client import PATIENCE, check


def client_of(host, user=None, password=None):
    """Returns a client that will log in when it connects, if a user is given."""
    options = {}
    if user:
        options["sasl_options"] = {"mechanism": "DIGEST-MD5", "username": user, "password": password}
    retry = {"max_tries": -1, "delay": 0.1, "max_delay": 0.5}
    return KazooClient(hosts=host, timeout=10.0, connection_retry=retry, **options)


def connect(host, user=None, password=None):
    """Returns a connected client that has logged in, if a user is given."""
    client = client_of(host, user, password)
    client.start(timeout=PATIENCE)
    return client


def gives_up(host, user, password):
    """Returns the state in which a client that may not log in ends. It may be connected before, for a moment."""
    client, ended, states = client_of(host, user, password), threading.Event(), []

    def heard(state):
        if state == KazooState.LOST:
            states.append(client.client_state)
            ended.set()

    client.add_listener(heard)
    client.start_async()
    check(ended.wait(PATIENCE), user, "is in")
    client.stop()
    return states[0]


def acls(client, path):
    return sorted("%s:%s:%d" % (a.id.scheme, a.id.id, a.perms) for a in client.get_acls(path)[0])


def logins(host):
    bob = connect(host, "bob", "bob's \"secret\"")
    bob.create("/kazoo", b"x", acl=[make_acl("sasl", "bob", all=True)])
    bob.create("/kazoo/auth", b"x", acl=[make_acl("auth", "", all=True)])
    check(acls(bob, "/kazoo") == ["sasl:bob:31"], acls(bob, "/kazoo"))
    check(acls(bob, "/kazoo/auth") == ["sasl:bob:31"], acls(bob, "/kazoo/auth"))
    check(bob.get("/kazoo")[0] == b"x")

    stranger = connect(host)
    try:
        stranger.get("/kazoo")
        check(False, "a stranger reads bob's node")
    except NoAuthError:
        pass
    stranger.add_auth("digest", "u:p")
    stranger.create("/kazoo-digest", b"x", acl=[make_acl("auth", "", all=True)])
    stranger.stop()

    carol = connect(host, "carol", "carolsecret")  # the super user
    check(carol.get("/kazoo")[0] == b"x")
    carol.delete("/kazoo-digest")
    carol.stop()
    bob.stop()


def failures(host):
    # ZooKeeper 3.8.0 lets an unknown user in with the password of whoever logged in last, so that is no case.
    for user, password in [("bob", "wrong"), ("eve", "evesecret")]:
        why = gives_up(host, user, password)
        check(why == KeeperState.AUTH_FAILED, user, why)


def main():
    logging.basicConfig(level=logging.CRITICAL)
    open_host, required = sys.argv[1:]
    logins(open_host)
    failures(open_host)
    bob = connect(required, "bob", "bob's \"secret\"")
    bob.create("/required", b"x", acl=[make_acl("sasl", "bob", all=True)])
    bob.stop()
    pause("ok")


if __name__ == "__main__":
    main()
