"""A Patroni cluster of two PostgreSQL servers that comes up, switches over and judges itself.

    patroni.py

It ends with status 0 if there was one primary after the start and one after the switchover, never two at the same
time, and no committed row was lost. It needs Debian's patroni and postgresql, and root, who starts PostgreSQL as the
user of the package.
"""
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

POSTGRES = "/usr/lib/postgresql/15/bin"
PATIENCE = 90  # seconds, for each step
GLANCE = 0.1
CONFIG = """
scope: pair
name: {name}
restapi: {{listen: "{api}", connect_address: "{api}"}}
zookeeper: {{hosts: [{hosts}]}}
bootstrap:
  dcs: {{ttl: 20, loop_wait: 1, retry_timeout: 3}}
  initdb: [{{encoding: UTF8}}, {{locale: C}}, no-sync]
postgresql:
  listen: "{sql}"
  connect_address: "{sql}"
  data_dir: {dir}/data
  bin_dir: {bin}
  pgpass: {dir}/pgpass
  authentication:
    superuser: {{username: postgres, password: test}}
    replication: {{username: replicator, password: test}}
  pg_hba: ["host all all 127.0.0.0/8 trust", "host replication all 127.0.0.0/8 trust"]
  parameters: {{shared_buffers: 16MB, max_connections: 20, fsync: off, dynamic_shared_memory_type: mmap, unix_socket_directories: ""}}
"""


def free_address():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % s.getsockname()[1]


class Server:
    """A PostgreSQL server and its Patroni. It ends with this process."""

    def __init__(self, folder, name):
        self.name, self.api, self.sql = name, free_address(), free_address()
        self.dir = os.path.join(folder, name)
        os.mkdir(self.dir)
        hosts = re.sub("/.*", "", os.environ["ROLLCALL_CONNECT"]).split(",")
        with open(os.path.join(self.dir, "patroni.yml"), "w") as f:
            f.write(CONFIG.format(name=name, api=self.api, sql=self.sql, dir=self.dir, bin=POSTGRES,
                                  hosts=", ".join('"%s"' % h for h in hosts)))
        who = pwd.getpwnam("postgres")
        os.chown(self.dir, who.pw_uid, who.pw_gid)
        self.log = open(os.path.join(self.dir, "log"), "w+")
        # PostgreSQL leaves the process group, but ends with the namespace.
        self.process = subprocess.Popen(
            ["unshare", "--pid", "--ipc", "--mount-proc", "--fork", "--kill-child",
             "setpriv", "--reuid", str(who.pw_uid), "--regid", str(who.pw_gid), "--clear-groups", "--pdeathsig", "KILL",
             "patroni", os.path.join(self.dir, "patroni.yml")],
            stdout=self.log, stderr=self.log, cwd=self.dir)

    def status(self):
        """Returns Patroni's answer about the server, or {}."""
        try:
            with urllib.request.urlopen("http://%s/patroni" % self.api, timeout=5) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as e:
            try:
                return json.load(e)
            except ValueError:
                return {}
        except (OSError, ValueError):
            return {}

    def role(self):
        """Returns "master" or "replica" if PostgreSQL runs, or "" """
        s = self.status()
        if s.get("state") != "running" or not s.get("timeline"):
            return ""
        if s["role"] == "replica" and s.get("replication_state", "streaming") != "streaming":
            return ""
        return s["role"]

    def query(self, statement):
        host, port = self.sql.split(":")
        return subprocess.run([POSTGRES + "/psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", host, "-p", port, "-U",
                               "postgres", "-c", statement], check=True, capture_output=True, text=True, timeout=20).stdout.strip()

    def tail(self):
        self.log.flush()
        with open(self.log.name) as f:
            return "".join(f.readlines()[-12:])


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("%s: not so within %d s" % (what, PATIENCE))
        time.sleep(GLANCE)


class Watch(threading.Thread):
    """Asks PostgreSQL itself which servers are primaries, all the time. The answers of two servers count together if
    each of them says so before and after the other one does."""

    def __init__(self, servers):
        super().__init__(daemon=True)
        self.servers, self.ended, self.two = servers, False, 0

    def primary(self, server):
        try:
            return server.query("SELECT NOT pg_is_in_recovery()") == "t"
        except (subprocess.SubprocessError, OSError):
            return False

    def run(self):
        while not self.ended:
            first, second = self.servers
            if self.primary(first) and self.primary(second) and self.primary(first):
                self.two += 1
            time.sleep(GLANCE)


def scenario(folder):
    servers = [Server(folder, "first")]
    try:
        until("the first server is the primary", lambda: servers[0].role() == "master")
        servers.append(Server(folder, "second"))
        until("the second server is a replica", lambda: sorted(s.role() for s in servers) == ["master", "replica"])
        watch = Watch(servers)
        watch.start()
        until("a row is committed", lambda: committed(primary(servers)))
        switch_over(servers)
        after = until("one primary and one replica",
                      lambda: sorted(s.role() for s in servers) == ["master", "replica"] and primary(servers))
        rows = until("the primary answers", lambda: counted(after))
        assert rows == "1", "%s rows after the switchover" % rows
        watch.ended = True
        watch.join()
        assert watch.two == 0, "both servers were primaries at the same time, %d times" % watch.two
    except BaseException:
        for s in servers:
            print("---", s.name, s.status(), s.tail(), file=sys.stderr)
        raise
    finally:
        for s in servers:
            s.process.kill()
            s.process.wait()


def primary(servers):
    return next((s for s in servers if s.role() == "master"), None)


def committed(server):
    """Commits one row, once."""
    try:
        return server and server.query("CREATE TABLE IF NOT EXISTS t (n int PRIMARY KEY); "
                                       "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING; SELECT 'yes'") == "yes"
    except (subprocess.SubprocessError, OSError):
        return False


def counted(server):
    try:
        return server.query("SELECT count(*) FROM t")
    except (subprocess.SubprocessError, OSError):
        return ""


def switch_over(servers):
    """Asks the primary to hand over to the other server, until there has been a change."""
    old = until("a primary is there", lambda: primary(servers))
    new = next(s for s in servers if s is not old)

    def changed():
        if new.role() == "master":
            return True
        request = urllib.request.Request("http://%s/switchover" % old.api, method="POST", headers={"Content-Type": "application/json"},
                                         data=json.dumps({"leader": old.name, "candidate": new.name}).encode())
        try:
            urllib.request.urlopen(request, timeout=30).read()
        except OSError:
            time.sleep(1)  # there is no healthy replica yet, or no leader
        return new.role() == "master"

    until("the other server is the primary", changed)


def main():
    folder = tempfile.mkdtemp(prefix="rollcall-patroni-")
    os.chmod(folder, 0o755)
    try:
        scenario(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
