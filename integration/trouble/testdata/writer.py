"""A client of kazoo that writes one node all the time.

usage: writer.py HOSTS TIMEOUT PATH PAUSE RETRY

It prints a line for each write: "ack" and the seconds that it took, "lost", or "expired".
"""

import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

hosts, timeout, path, pause, retry = sys.argv[1:]
client = KazooClient(hosts=hosts, timeout=float(timeout), randomize_hosts=False)
client.start(timeout=60)
client.ensure_path(path)
while True:
    began = time.monotonic()
    try:
        client.set(path, b"")
        print("ack", time.monotonic() - began, flush=True)
        time.sleep(float(pause))
    except SessionExpiredError:
        print("expired", flush=True)
        time.sleep(float(retry))
    except (ConnectionLoss, KazooTimeoutError):
        print("lost", flush=True)
        time.sleep(float(retry))
