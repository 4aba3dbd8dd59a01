"""The tests of an application in Python, which run `rollcall test-server`.

usage: ROLLCALL=path/to/rollcall python3 -m unittest test_application
"""

import os
import subprocess
import threading
import unittest

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NodeExistsError, SessionExpiredError
from kazoo.protocol.states import KazooState

PATIENCE = 60.0  # seconds, for anything that must happen


def register(client, name):
    """Is a part of the application: it registers a worker, although connections break."""
    path = "/worker-" + name
    while True:
        try:
            client.create(path, ephemeral=True)
            return
        except (ConnectionLoss, SessionExpiredError):
            continue
        except NodeExistsError:
            stat = client.exists(path)
            if stat and stat.owner_session_id == client.client_id[0]:
                return  # the reply was lost, and the create was carried out
            raise


class TestServer:
    """Runs `rollcall test-server`, and sends it commands."""

    def __init__(self, *flags):
        self.process = subprocess.Popen(
            [os.environ["ROLLCALL"], "test-server", *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.connect_string = self.process.stdout.readline().strip()

    def do(self, *words):
        """Sends a command, and returns what the server says after "ok"."""
        print(*words, file=self.process.stdin, flush=True)
        reply = self.process.stdout.readline().strip()
        if not reply.startswith("ok"):
            raise ValueError(reply)
        return reply[3:]

    def close(self):
        self.process.communicate(timeout=PATIENCE)  # the end of its stdin ends it
        if self.process.returncode != 0:
            raise ValueError(self.process.returncode)


class ApplicationTest(unittest.TestCase):
    def start(self, *flags):
        server = TestServer(*flags)
        self.addCleanup(server.close)
        client = KazooClient(hosts=server.connect_string, timeout=10.0)
        client.start(timeout=PATIENCE)
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        return server, client

    def test_lost_reply(self):
        server, client = self.start()
        server.do("lose-reply", 1)
        register(client, "ada")
        self.assertEqual(client.get_children("/"), ["worker-ada", "zookeeper"])

    def test_expired_session(self):
        server, client = self.start()
        lost = threading.Event()
        client.add_listener(lambda state: state == KazooState.LOST and lost.set())
        register(client, "ada")
        server.do("expire", client.client_id[0])
        self.assertTrue(lost.wait(PATIENCE))
        register(client, "ada")  # kazoo opens another session

    def test_leader_dies(self):
        server, client = self.start("--members", "3")
        register(client, "ada")
        killed = server.do("kill-leader")
        register(client, "grace")
        self.assertNotEqual(server.do("leader"), killed)
        server.do("restart", killed)
        server.do("wait-ready")

    def test_wrong_command(self):
        server, _ = self.start()
        with self.assertRaisesRegex(ValueError, "no command"):
            server.do("explode")


if __name__ == "__main__":
    unittest.main()
