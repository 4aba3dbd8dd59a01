"""Programs that use a recipe of kazoo, judge themselves, and end with status 0 if nothing went wrong.

    recipes.py counter|lock|election|queue|careful-counter

They follow kazoo's documentation: connections are retried, and a holder stops when its listener hears of a lost
connection.
"""
import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, ConnectionClosedError, ConnectionLoss, NodeExistsError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

LOST = (ConnectionLoss, SessionExpiredError, ConnectionClosedError)
PATIENCE = 12  # seconds, for everything


def connect():
    """Connects, as often as it takes: start() fails if the connection breaks as soon as it is there."""
    while True:
        client = KazooClient(hosts=os.environ["ROLLCALL_CONNECT"], timeout=10)
        try:
            client.start(timeout=5)
            return client
        except KazooTimeoutError:
            client.close()


def again(do):
    """Repeats do while the connection fails."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return do()
        except LOST:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def counter():
    """kazoo's Counter, with which += retries by itself."""
    client = connect()
    value = again(lambda: client.Counter("/counter"))
    for _ in range(3):
        value += 1
    assert again(lambda: value.value) == 3, "the counter is %d" % value.value
    client.stop()


def careful_counter():
    """A counter whose node names the last add, so that a retry can see whether it was carried out."""
    client = connect()

    def make():
        try:
            client.create("/counter", b"0")
        except NodeExistsError:
            pass

    again(make)
    for turn in range(1, 4):

        def add():
            data, stat = client.get("/counter")
            if int(data) < turn:
                try:
                    client.set("/counter", b"%d" % turn, stat.version)
                except BadVersionError:
                    pass  # an earlier try has been carried out meanwhile

        again(add)
    data, _ = again(lambda: client.get("/counter"))
    assert data == b"3", "the counter is %r" % data
    client.stop()


class Workers:
    """Two clients, each with its thread, that must not work at the same time."""

    def __init__(self):
        self.mutex, self.working, self.errors, self.turns = threading.Lock(), 0, [], 0

    def work(self, lost):
        if lost.is_set():
            return
        with self.mutex:
            self.working += 1
            if self.working > 1:
                self.errors.append("two clients work at the same time")
        time.sleep(0.02)
        with self.mutex:
            self.working -= 1
            self.turns += 1

    def run(self, turn):
        threads = [threading.Thread(target=self.client, args=(turn,), daemon=True) for _ in range(2)]
        end = time.monotonic() + PATIENCE
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0, end - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            self.errors.append("a client waits for ever")
        assert not self.errors, self.errors

    def client(self, turn):
        try:
            client, lost = connect(), threading.Event()
            client.add_listener(lambda state: lost.clear() if state == "CONNECTED" else lost.set())
            again(lambda: turn(client, lost))
            client.stop()
        except BaseException as err:
            self.errors.append(repr(err))


def lock():
    workers = Workers()

    def turn(client, lost):
        mutex = client.Lock("/lock")
        mutex.acquire()
        try:
            workers.work(lost)
        finally:
            again(mutex.release)

    workers.run(turn)


def election():
    workers = Workers()
    workers.run(lambda client, lost: client.Election("/election").run(workers.work, lost))


def queue():
    """kazoo's LockingQueue: each element is consumed once."""
    client = connect()
    elements = client.LockingQueue("/queue")
    wanted = [b"a", b"b", b"c"]
    for element in wanted:
        again(lambda: elements.put(element))
    got, end = [], time.monotonic() + PATIENCE
    while len(got) < len(wanted) and time.monotonic() < end:
        element = again(lambda: elements.get(timeout=2))
        if element is not None and again(elements.consume):
            got.append(element)
    left = len(again(lambda: client.get_children("/queue/entries")))
    assert got == wanted and left == 0, "got %r, and %d are left" % (got, left)
    client.stop()


{"counter": counter, "careful-counter": careful_counter, "lock": lock, "election": election, "queue": queue}[sys.argv[1]]()
os._exit(0)  # threads of sessions that were lost may still run
