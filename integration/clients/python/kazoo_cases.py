"""Cases of kazoo, one at a time, on one server.

usage: kazoo_cases.py CASE HOST [LATER...]

LATER are the servers at the end of the case, if others come in.
It prints what shall happen to it ("block until expired", ...), waits for "go", prints "ok" at
the end, waits for "go" and exits with status 0. Any error is a traceback and status 1.
"""

import logging
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    NewConfigNoQuorumError,
    NoAuthError,
    NotReadOnlyCallError,
    RolledBackError,
    SystemZookeeperError,
)
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import make_acl

from kazoo_client import PATIENCE, check, wait_for

TIMEOUT = 4.0  # seconds, of the session
LONG = 20.0  # of one that must not notice anything, on a busy machine


class Case:
    """A client and what it heard."""

    def __init__(self, host, timeout=TIMEOUT, **options):
        self.states = []
        retry = {"max_tries": -1, "delay": 0.1, "max_delay": 0.5}
        self.client = KazooClient(hosts=host, timeout=timeout, connection_retry=retry, **options)
        self.client.add_listener(self.states.append)
        self.client.start(timeout=PATIENCE)


def pause(word):
    print(word, flush=True)
    line = sys.stdin.readline()
    check(line == "go\n", "told", line)


def start_again(host):
    """360: started, stopped and started again: another session."""
    c = Case(host)
    first = c.client.client_id[0]
    c.client.stop()
    c.client.start(timeout=PATIENCE)
    check(c.client.client_id[0] not in (0, first), "session", first, c.client.client_id)
    check(c.states == [KazooState.CONNECTED, KazooState.LOST, KazooState.CONNECTED], c.states)
    c.client.stop()


def expired(host):
    """361: the session expires: lost, then another one."""
    c = Case(host)
    first = c.client.client_id[0]
    c.client.ensure_path("/sessions")
    c.client.create("/sessions/mine", ephemeral=True)
    pause("block until expired")
    wait_for(lambda: c.states[-1:] == [KazooState.CONNECTED] and KazooState.LOST in c.states, c.states)
    check(c.client.client_id[0] != first, "the same session")
    check(c.client.exists("/sessions/mine") is None, "its node is still there")
    c.client.stop()


def auth_data(host):
    """362: identities that kazoo shows while it connects, in between other requests."""
    c = Case(host, auth_data=[("digest", "u:p"), ("digest", "v:q")])
    c.client.create("/mine", b"x", acl=[make_acl("auth", "", all=True)])
    check(c.client.get("/mine")[0] == b"x")
    ids = sorted(acl.id.id.split(":")[0] for acl in c.client.get_acls("/mine")[0])
    check(ids == ["u", "v"], ids)
    pause("cut")
    wait_for(lambda: c.states[-2:] == [KazooState.SUSPENDED, KazooState.CONNECTED], c.states)
    check(c.client.get("/mine")[0] == b"x", "not shown again")
    c.client.stop()


def rolled_back(host):
    """363: a transaction whose check fails."""
    c = Case(host)
    c.client.create("/a")
    t = c.client.transaction()
    t.create("/b")
    t.check("/a", 7)
    kinds = [type(result) for result in t.commit()]
    check(kinds == [RolledBackError, BadVersionError], kinds)
    check(c.client.exists("/b") is None, "half a transaction happened")
    c.client.stop()


def chroot_multi(host):
    """259: a multi below a chroot; what comes back is told without it."""
    root = Case(host)
    root.client.create("/app")
    c = Case(host + "/app")
    t = c.client.transaction()
    t.create("/m")
    t.create("/m/s-", sequence=True)
    t.set_data("/m", b"x", 0)
    results = t.commit()
    check(results[:2] == ["/m", "/m/s-0000000000"] and results[2].version == 1, results)
    check(root.client.exists("/app/m").children_count == 1)
    c.client.stop()
    root.client.stop()


def no_room(host):
    """A write past dataQuota (1M) is an error, alone and in a transaction, and the client goes on."""
    c = Case(host, timeout=LONG)
    c.client.create("/large", b"x" * 900000)
    try:
        c.client.create("/more", b"x" * 200000)
        check(False, "there was room")
    except SystemZookeeperError:
        pass
    t = c.client.transaction()
    t.create("/small")
    t.create("/more", b"x" * 200000)
    kinds = [type(result) for result in t.commit()]
    check(kinds == [RolledBackError, SystemZookeeperError], kinds)
    check(c.client.exists("/small") is None, "half a transaction happened")
    c.client.delete("/large")
    c.client.create("/more", b"x" * 200000)
    check(c.states == [KazooState.CONNECTED], c.states)
    c.client.stop()


def restored(host):
    """Another member restores a backup: the client keeps its session, its node and its watch."""
    c = Case(host, timeout=LONG)
    session = c.client.client_id[0]
    c.client.create("/app", b"of before")
    c.client.create("/app/kept", b"kept")
    c.client.create("/app/mine", ephemeral=True)
    pause("save")
    c.client.set("/app", b"of today")
    c.client.delete("/app/kept")
    c.client.create("/new/below", makepath=True)
    c.client.create("/app/later", ephemeral=True)
    seen = []
    c.client.get("/app", watch=seen.append)
    pause("restore")
    wait_for(lambda: len(seen) == 1, seen)
    c.client.sync("/")
    check(c.client.get("/app")[0] == b"of before")
    check(c.client.get("/app/kept")[0] == b"kept")
    check(c.client.exists("/new") is None, "not in the backup")
    for path in ("/app/mine", "/app/later"):
        check(c.client.exists(path).ephemeralOwner == session, path)
    check(c.states == [KazooState.CONNECTED] and c.client.client_id[0] == session, c.states)
    c.client.stop()


def read_only(host):
    """Without a leader a client that asks for it reads, and does not write. With a leader it writes again."""
    writer = Case(host)
    writer.client.create("/kept", b"x")
    writer.client.stop()
    pause("stop the others")
    c = Case(host, read_only=True)
    check(c.client.client_state == KeeperState.CONNECTED_RO, c.client.client_state)
    check(c.client.get("/kept")[0] == b"x", "not the data from before")
    try:
        c.client.set("/kept", b"y")
        check(False, "a write was taken")
    except NotReadOnlyCallError:
        pass
    pause("start the others")
    wait_for(lambda: c.client.client_state == KeeperState.CONNECTED, c.states)
    c.client.set("/kept", b"y")
    check(c.client.get("/kept")[0] == b"y", "not written")
    c.client.stop()


def reconfig(host):
    """The list of servers is changed, as in kazoo's own tests: by the super user, and by nobody else."""
    line = "server.100=127.0.0.9:11:12:observer;127.0.0.9:13"

    def refused(client, error, **change):
        try:
            client.reconfig(**{**dict(joining=line, leaving=None, new_members=None), **change})
            check(False, "reconfigured", change)
        except error:
            pass

    c = Case(host)
    refused(c.client, NoAuthError)
    c.client.stop()
    c = Case(host, timeout=LONG, auth_data=[("digest", "super:secret")])
    refused(c.client, BadArgumentsError, joining="server.100=foo")
    data, stat = c.client.reconfig(joining=line, leaving=None, new_members=None)
    check(line.encode() in data and stat.version == -1, data, stat)
    data, _ = c.client.reconfig(joining=None, leaving="100", new_members=None)
    check(line.encode() not in data, data)
    version = int(data.decode().split("\n")[-1].split("=")[1], base=16)
    refused(c.client, BadVersionError, from_config=version + 1)
    refused(c.client, BadVersionError, from_config=version - 1)
    data, stat = c.client.reconfig(joining=line, leaving=None, new_members=None, from_config=version)
    check(line.encode() in data and stat.mzxid > version, data, stat)
    check(c.client.get("/zookeeper/config")[0] == data)
    data, _ = c.client.reconfig(joining=None, leaving="100", new_members=None)
    refused(c.client, NewConfigNoQuorumError, joining=",".join(
        "server.%d=127.0.0.%d:11:12;127.0.0.%d:13" % (i, i, i) for i in (101, 102, 103)))
    check(c.states == [KazooState.CONNECTED], c.states)
    c.client.stop()


def follows(host, *last):
    """The client watches the list of servers, and goes on when all servers that it knew at first are gone."""
    c = Case(host, timeout=LONG)
    session = c.client.client_id[0]
    c.client.create("/follows", ephemeral=True)

    @c.client.DataWatch("/zookeeper/config")
    def follow(data, _):
        hosts = [line.split(";")[1] for line in data.decode().split("\n") if ";" in line]
        if hosts:
            c.client.set_hosts(",".join(hosts))

    pause("replace all servers")
    wait_for(lambda: c.client.connected, "a connection")
    wait_for(lambda: {"%s:%d" % at for at in c.client.hosts} == set(last), last)
    c.client.retry(c.client.ensure_path, "/written")
    owner = c.client.retry(c.client.exists, "/follows").ephemeralOwner
    check(c.client.client_id[0] == session == owner, "session", session, c.client.client_id, owner)
    check(KazooState.LOST not in c.states, c.states)
    c.client.stop()


CASES = {
    "restored": restored,
    "read-only": read_only,
    "follows": follows,
    "reconfig": reconfig,
    "no-room": no_room,
    "chroot-multi": chroot_multi,
    "start-again": start_again,
    "expired": expired,
    "auth-data": auth_data,
    "rolled-back": rolled_back,
}


def main():
    logging.basicConfig(level=logging.CRITICAL)
    name, *hosts = sys.argv[1:]
    CASES[name](*hosts)
    pause("ok")


if __name__ == "__main__":
    main()
