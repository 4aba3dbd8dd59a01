"""One lock of kazoo, held until standard input is closed.

usage: kazoo_lock.py HOSTS KIND PATH SECONDS

It tries to acquire a lock of KIND at PATH, and prints one line when it knows the outcome:

  held NODE     it holds the lock; NODE is the name of its node below PATH
  timeout       it could not acquire the lock within SECONDS
  error TEXT    kazoo raised an exception

If it holds the lock, it waits until its standard input is closed, and then releases the lock.
It always exits with status 0.

KIND is one of:

  lock       kazoo's Lock
  election   kazoo's Election, which is a Lock
  seeing     kazoo's Lock that also counts names which contain "-lock-" as contenders
  read       kazoo's ReadLock
  write      kazoo's WriteLock
  semaphore  kazoo's Semaphore with one lease
"""

import logging
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

TIMEOUT = 10.0  # seconds, of the session

KINDS = {
    "lock": lambda client, path: client.Lock(path, "kazoo"),
    "election": lambda client, path: client.Election(path, "kazoo").lock,
    "seeing": lambda client, path: client.Lock(path, "kazoo", extra_lock_patterns=["-lock-"]),
    "read": lambda client, path: client.ReadLock(path, "kazoo"),
    "write": lambda client, path: client.WriteLock(path, "kazoo"),
    "semaphore": lambda client, path: client.Semaphore(path, "kazoo", max_leases=1),
}


def own_node(client, path):
    """Returns the name of the node in path that this session created."""
    for name in client.get_children(path):
        stat = client.exists(path + "/" + name)
        if stat is not None and stat.ephemeralOwner == client.client_id[0]:
            return name
    raise AssertionError("no node of this session in " + path)


def hold(client, kind, path, seconds):
    """Acquires the lock, reports that, and releases it when standard input is closed."""
    lock = KINDS[kind](client, path)
    if not lock.acquire(timeout=seconds):
        print("timeout", flush=True)
        return
    print("held", own_node(client, path), flush=True)
    sys.stdin.read()
    lock.release()


def main(hosts, kind, path, seconds):
    logging.disable()
    client = KazooClient(hosts=hosts, timeout=TIMEOUT)
    try:
        client.start(timeout=TIMEOUT)
        hold(client, kind, path, float(seconds))
    except LockTimeout:
        print("timeout", flush=True)
    except Exception as error:
        print("error", repr(error), flush=True)
    finally:
        client.stop()


main(*sys.argv[1:])
