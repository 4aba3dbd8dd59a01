"""One kazoo client of one scenario, told by its standard input when to go on.

usage: kazoo_client.py SCENARIO ROOT NAME NAMES HOSTS stays|moves

NAMES are the names of all clients of the scenario, with commas; NAME is this one's.
HOSTS are tried in their order. A client that moves has its first host killed.

It prints "ready" and waits for "go", several times where clients must meet; the fault
comes before the "go" behind "ready fault". At the end it prints "ok", waits for "go",
closes its session and exits with status 0. Any error is a traceback and status 1.
"""

import logging
import re
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import KazooState

PATIENCE = 60.0  # seconds, for anything that must happen
LOOK = 0.02  # seconds between two looks at a condition
TIMEOUT = 10.0  # seconds, of the session


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


class Background(threading.Thread):
    """A function in a thread of its own, whose error result() passes on."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self.function = function
        self.error = None
        self.start()

    def run(self):
        try:
            self.function()
        except BaseException as error:  # passed on by result
            self.error = error

    def result(self):
        self.join(PATIENCE)
        check(not self.is_alive(), "a thread does not end")
        if self.error is not None:
            raise self.error


class Actor:
    """The client and what it must know of the scenario."""

    def __init__(self, root, name, names, hosts, moves):
        self.root, self.name, self.names, self.moves = root, name, names, moves
        self.states = []  # every state that the listener heard
        # kazoo's own pauses between two attempts double up to a minute: beyond TIMEOUT.
        retry = {"max_tries": -1, "delay": 0.1, "max_delay": 0.5}
        self.client = KazooClient(hosts=hosts, timeout=TIMEOUT, randomize_hosts=False, connection_retry=retry)
        self.client.add_listener(self.states.append)
        self.client.start(timeout=PATIENCE)
        self.session = self.client.client_id[0]

    @property
    def first(self):
        """Whether this is the client that begins where one must; it moves if any does."""
        return self.name == self.names[0]

    def path(self, *parts):
        return "/".join((self.root,) + parts)

    def meet(self):
        """Waits for all clients."""
        self.pause("ready")

    def fault(self):
        """Waits for all clients and the fault, and until this client can go on."""
        self.undisturbed()
        self.pause("ready fault")
        if self.moves:
            wait_for(lambda: self.states[-2:] == [KazooState.SUSPENDED, KazooState.CONNECTED], "the session goes on")

    def pause(self, word):
        print(word, flush=True)
        line = sys.stdin.readline()
        check(line == "go\n", "told", line)

    def undisturbed(self):
        """Checks that the session was hurt no more than this client's place explains."""
        check(self.client.client_id[0] == self.session, "session was", self.session, "is", self.client.client_id)
        if self.moves:
            check(KazooState.LOST not in self.states, self.states)
        else:
            check(self.states == [KazooState.CONNECTED], "a client of a surviving member heard", self.states)

    def owns(self, path):
        """Checks that the node is this session's ephemeral."""
        stat = self.client.exists(path)
        check(stat is not None and stat.ephemeralOwner == self.session, path, stat, self.session)


def session(a):
    """Session, ephemerals, sequential nodes."""
    before = a.client.create(a.path("e-"), b"1", ephemeral=True, sequence=True)
    a.fault()
    after = a.client.create(a.path("e-"), b"2", ephemeral=True, sequence=True)
    check(before < after, before, after)
    a.owns(before)
    a.owns(after)
    a.meet()
    a.client.sync(a.root)
    check(len(a.client.get_children(a.root)) == 2 * len(a.names), a.client.get_children(a.root))


def lock(a):
    """The first client holds the lock through the fault, the others wait for it."""
    path, total = a.path("lock"), a.path("total")
    mine = a.client.Lock(path, a.name)
    if a.first:
        a.client.create(total, b"0")
        mine.acquire()
    a.meet()
    waiting = None if a.first else Background(mine.acquire)
    wait_for(lambda: len(mine.contenders()) == len(a.names), "all contend for the lock")
    order = mine.contenders()
    check(order[0] == a.names[0], order)
    a.fault()
    if a.first:
        check(mine.is_acquired)
        a.owns(path + "/" + mine.node)
        check(a.client.get(total)[0] == b"0", "somebody else had the lock")
    else:
        waiting.result()
    count(a, total)
    mine.release()
    for _ in range(5):
        with mine:
            count(a, total)
    a.meet()
    a.client.sync(total)
    check(int(a.client.get(total)[0]) == 6 * len(a.names), a.client.get(total))


def count(a, total):
    """Adds one without care: whoever has the lock may."""
    value, stat = a.client.get(total)
    a.client.set(total, b"%d" % (int(value) + 1), version=stat.version)


def election(a):
    """The first client leads through the fault, then each of the others once."""
    path, office, led = a.path("election"), a.path("office"), a.path("led")
    if a.first:
        a.client.create(led)
    a.meet()
    elected, resumed = threading.Event(), threading.Event()

    def lead():
        a.client.create(office, a.name.encode(), ephemeral=True)  # fails if another leads
        a.client.create(led + "/" + a.name)
        elected.set()
        if a.first:
            check(resumed.wait(PATIENCE), "not resumed")
            a.owns(office)
            a.client.sync(led)
            check(a.client.get_children(led) == [a.name], "led", a.client.get_children(led))
        a.client.delete(office)

    mine = a.client.Election(path, a.name)
    run = Background(lambda: mine.run(lead)) if a.first else None
    if a.first:
        wait_for(elected.is_set, "elected")
    a.meet()
    run = run or Background(lambda: mine.run(lead))
    wait_for(lambda: len(mine.contenders()) == len(a.names), "all stand for election")
    check(a.first or not elected.is_set())
    a.fault()
    resumed.set()
    run.result()
    check(elected.is_set())
    a.meet()
    a.client.sync(led)
    check(sorted(a.client.get_children(led)) == sorted(a.names), a.client.get_children(led))


def counter(a):
    """Everybody adds to one counter, and no addition is lost or doubled."""
    mine = a.client.Counter(a.path("counter"))
    for _ in range(10):
        mine += 1
    a.fault()
    for _ in range(10):
        mine += 1
    a.meet()
    a.client.sync(a.path("counter"))
    check(mine.value == 20 * len(a.names), mine.value)


def data_watch(a):
    """Everybody watches everybody's node."""
    seen = {name: [] for name in a.names}
    for name in a.names:
        a.client.DataWatch(a.path(name), lambda data, stat, event, values=seen[name]: values.append(data))

    def all_see(data):
        wait_for(lambda: all(values[-1:] == [data] for values in seen.values()), (data, seen))

    all_see(None)
    a.meet()
    a.client.create(a.path(a.name), b"before")
    all_see(b"before")
    a.fault()
    a.client.set(a.path(a.name), b"after")
    all_see(b"after")
    a.meet()
    a.client.delete(a.path(a.name))
    all_see(None)
    for values in seen.values():
        check(values == [None, b"before", b"after", None], seen)


def children_watch(a):
    """Everybody watches the directory where all have an ephemeral node."""
    directory, seen = a.path("directory"), set()
    a.client.ensure_path(directory)
    now = []

    @a.client.ChildrenWatch(directory)
    def watch(children):
        now[:] = children
        seen.update(children)

    def all_come(word):
        a.client.create(directory + "/" + word + a.name, ephemeral=True)
        wait_for(lambda: seen.issuperset(word + name for name in a.names), (word, seen))

    all_come("before-")
    a.fault()
    all_come("after-")
    a.owns(directory + "/before-" + a.name)
    a.meet()
    a.client.delete(directory + "/before-" + a.name)
    wait_for(lambda: sorted(now) == sorted("after-" + name for name in a.names), ("nodes go", now))


def transaction(a):
    """Transactions happen whole or not at all."""
    transact(a, a.path(a.name + "-before"))
    a.fault()
    transact(a, a.path(a.name + "-after"))


def transact(a, path):
    t = a.client.transaction()
    t.create(path, b"1")
    t.check(path, 0)
    t.set_data(path, b"2", 0)
    t.create(path + "/child")
    t.delete(path + "/child")
    results = t.commit()
    check(results[0] == path and results[1] is True, results)
    check(results[2].version == 1, results)
    check(results[3] == path + "/child" and results[4] is True, results)
    check(a.client.get(path)[0] == b"2")

    t = a.client.transaction()
    t.create(path + "/other")
    t.check(path, 7)
    t.delete(path)
    kinds = [type(result) for result in t.commit()]
    check(kinds == [RolledBackError, BadVersionError, RuntimeInconsistency], kinds)
    check(a.client.exists(path + "/other") is None, "half a transaction happened")
    for wrong, error in ((lambda: a.client.create(path), NodeExistsError), (lambda: a.client.delete(path + "/no"), NoNodeError)):
        try:
            wrong()
        except error:
            continue
        raise AssertionError("no error", error)


def words(a):
    """Four-letter words of the member that this client is connected to, as kazoo asks for them."""
    a.client.create(a.path(a.name), b"x", ephemeral=True)
    a.fault()
    a.client.set(a.path(a.name), b"y")  # after it this member has a leader again, and answers all words
    a.client.get(a.path(a.name), watch=lambda event: None)
    check(a.client.command(b"ruok") == "imok", a.client.command(b"ruok"))
    check(a.client.command(b"isro") == "rw", a.client.command(b"isro"))
    check(a.client.server_version() == (3, 9, 5), a.client.server_version())
    figures = dict(re.fullmatch(r"zk_(\w+)\t(\S.*)", line).groups() for line in a.client.command(b"mntr").splitlines())
    check(figures["version"].startswith("3.9.5-rollcall-"), figures)
    check(int(figures["num_alive_connections"]) >= 2, figures)  # this client's, and the word's
    check(int(figures["watch_count"]) >= 1 and int(figures["ephemerals_count"]) >= 1, figures)
    check(int(figures["packets_received"]) > 3 and float(figures["avg_latency"]) >= 0, figures)
    check(figures["server_state"] in a.client.command(b"stat"), figures, a.client.command(b"stat"))
    sid = "sid=0x%x," % (a.session % 2**64)
    check(sid in a.client.command(b"cons"), sid, a.client.command(b"cons"))
    check("0x%x:\n\t%s\n" % (a.session % 2**64, a.path(a.name)) in a.client.command(b"dump"), a.client.command(b"dump"))
    check(a.path(a.name) + "\n" in a.client.command(b"wchp"), a.client.command(b"wchp"))
    check(a.client.command(b"conf").startswith("clientPort="), a.client.command(b"conf"))
    a.meet()


SCENARIOS = {
    "session": session,
    "lock": lock,
    "election": election,
    "counter": counter,
    "data-watch": data_watch,
    "children-watch": children_watch,
    "transaction": transaction,
    "words": words,
}


def main():
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    scenario, root, name, names, hosts, kind = sys.argv[1:]
    actor = Actor(root, name, names.split(","), hosts, kind == "moves")
    SCENARIOS[scenario](actor)
    actor.undisturbed()
    actor.pause("ok")
    actor.client.stop()
    actor.client.close()


if __name__ == "__main__":
    main()
