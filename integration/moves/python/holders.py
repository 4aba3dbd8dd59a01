"""Clients that hold ephemeral nodes and locks while the servers behind their addresses change.

usage: holders.py HOSTS COUNT

COUNT clients of kazoo connect to HOSTS, each with a session of its own. It reads commands as lines from its standard
input and answers each with a line:

hold    every client creates an ephemeral node and a sequential one, takes a lock of its own, and stands in the queue
        for a lock that client 0 has. The answer is "held", with the number of clients.
check   every client is connected in the same session, has its nodes and its locks, and gets the next sequential
        number. Client 0 gives up the common lock and takes it again, so the next in the queue gets it. The answer
        is "fine".
leave   every client closes its session. The answer is "left".

Every change of a client's state is a line "state CLIENT STATE". An error is a traceback and exit status 1.
"""

import logging
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError
from kazoo.protocol.states import KazooState
from kazoo.security import make_digest_acl

PATIENCE = 60.0  # seconds, for anything that must happen
LOOK = 0.02  # seconds between two looks at a condition
TIMEOUT = 20.0  # seconds, of the sessions

said = threading.Lock()


def say(*words):
    with said:
        print(*words, flush=True)


def check(holds, *what):
    """Fails with what was seen, unless holds."""
    if not holds:
        raise AssertionError(*what)


def wait_for(condition, what):
    """Waits until condition() holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        check(time.monotonic() < deadline, "waited in vain", what)
        time.sleep(LOOK)


class Holder:
    """One client, its nodes and its locks."""

    def __init__(self, number, hosts):
        self.number, self.states = number, []
        retry = {"max_tries": -1, "delay": 0.05, "backoff": 1, "max_delay": 0.2}
        # kazoo waits for the answer to its handshake for the session's timeout divided by the number of hosts.
        # ZooKeeper does not answer some clients that connect while it starts. With one host, such a client would
        # try again only when its session expires. So each host is there four times.
        hosts = ",".join([hosts] * 4)
        self.client = KazooClient(
            hosts=hosts, timeout=TIMEOUT, connection_retry=retry, auth_data=[("digest", "user%d:secret" % number)]
        )
        self.client.add_listener(self.heard)
        self.client.start(timeout=PATIENCE)
        self.session, self.password = self.client.client_id
        self.events = []

    def heard(self, state):
        self.states.append(state)
        say("state", self.number, state)

    def hold(self):
        c = self.client
        self.own = "/held/own-%d" % self.number
        acl = [make_digest_acl("user%d" % self.number, "secret", all=True)]
        c.create(self.own, b"of %d" % self.number, ephemeral=True, acl=acl)
        self.last = c.create("/held/numbers/n-", b"", ephemeral=True, sequence=True)
        self.lock = c.Lock("/held/locks/%d" % self.number, str(self.number))
        check(self.lock.acquire(timeout=PATIENCE), "no lock", self.number)
        c.get("/held/watched", watch=self.events.append)
        self.common = c.Lock("/held/common", str(self.number))
        if self.number == 0:
            check(self.common.acquire(timeout=PATIENCE), "no common lock")
        else:
            self.stand_in_queue()

    def stand_in_queue(self):
        threading.Thread(target=self.wait_for_lock, daemon=True).start()

    def wait_for_lock(self):
        try:
            self.common.acquire()
        except ConnectionClosedError:  # the client has left
            pass

    def check(self):
        c = self.client
        wait_for(lambda: c.connected and self.states[-1] == KazooState.CONNECTED, "client %d is connected" % self.number)
        check(KazooState.LOST not in self.states, self.number, self.states)
        check(c.client_id == (self.session, self.password), "session was", self.session, "is", c.client_id)
        data, stat = c.retry(c.get, self.own)
        check(data == b"of %d" % self.number, data)
        check(stat.ephemeralOwner == self.session, self.own, stat)
        stat = c.retry(c.exists, self.last)
        check(stat is not None and stat.ephemeralOwner == self.session, self.last, stat)
        check(self.lock.is_acquired, "lock", self.number)
        check(c.retry(self.lock.contenders) == [str(self.number)], self.lock.contenders())
        number = c.retry(c.create, "/held/numbers/n-", b"", ephemeral=True, sequence=True)
        check(number > self.last, "the number", number, "is not after", self.last)
        self.last = number


def main():
    logging.basicConfig(level=logging.CRITICAL)
    hosts, count = sys.argv[1], int(sys.argv[2])
    holders = [Holder(i, hosts) for i in range(count)]
    first = holders[0].client
    for line in sys.stdin:
        word = line.strip()
        if word == "hold":
            for path in "/held/numbers", "/held/locks", "/held/common", "/held/watched":
                first.ensure_path(path)
            for h in holders:
                h.hold()
            wait_for(lambda: len(first.get_children("/held/common")) == count, "all stand in the queue")
            say("held", count)
        elif word == "check":
            for h in holders:
                h.check()
            first.retry(first.set, "/held/watched", b"changed")
            for h in holders:
                wait_for(lambda: h.events, "the watch of client %d" % h.number)
                h.events.clear()
                h.client.get("/held/watched", watch=h.events.append)
            owner = next(h for h in holders if h.common.is_acquired)
            others = [h for h in holders if h is not owner]
            owner.common.release()
            wait_for(lambda: sum(h.common.is_acquired for h in others) == 1, "the next in the queue has the lock")
            owner.stand_in_queue()
            say("fine")
        elif word == "leave":
            for h in holders:
                h.client.stop()
                h.client.close()
            say("left")
            return
        else:
            raise AssertionError(line)


main()
