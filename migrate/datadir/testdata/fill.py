"""Fills an empty ZooKeeper with one of everything, and prints what it then says of each node and session."""
import json
import struct
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import write_buffer, write_string
from kazoo.security import make_acl, make_digest_acl, OPEN_ACL_UNSAFE


class Create(object):
    """A create of a kind that kazoo does not know."""

    def __init__(self, type, path, data, flags, ttl=None):
        self.type, self.path, self.data, self.flags, self.ttl = type, path, data, flags, ttl

    def serialize(self):
        b = bytearray(write_string(self.path))
        b += write_buffer(self.data)
        b += struct.pack("!i", len(OPEN_ACL_UNSAFE))
        for a in OPEN_ACL_UNSAFE:
            b += struct.pack("!i", a.perms) + write_string(a.id.scheme) + write_string(a.id.id)
        b += struct.pack("!i", self.flags)
        if self.ttl is not None:
            b += struct.pack("!q", self.ttl)
        return b

    @classmethod
    def deserialize(cls, b, offset):
        return True


def call(zk, request):
    result = zk.handler.async_result()
    zk._call(request, result)
    return result.get(timeout=10)


def connect(addr, timeout=20):
    for _ in range(60):
        zk = KazooClient(addr, timeout=timeout)
        try:
            zk.start(timeout=2)
            return zk
        except Exception:
            zk.stop()
            zk.close()
            time.sleep(0.2)
    sys.exit("no server at " + addr)


def fill(addr):
    zk, other, gone = connect(addr), connect(addr, 11), connect(addr)
    zk.create("/plain", b"one")
    zk.set("/plain", b"two")
    zk.set("/plain", b"three")
    zk.create("/empty", b"")
    zk.create("/deep/er/and/deeper", b"x" * 100, makepath=True)
    zk.create("/h\u00f6her", b"beyond ASCII")
    for _ in range(3):
        zk.create("/deep/n-", b"", sequence=True)
    zk.delete("/deep/n-0000000001")
    zk.create("/acl", b"", acl=[make_digest_acl("user", "secret", all=True), make_acl("ip", "127.0.0.1", read=True)])
    zk.set_acls("/plain", [make_acl("world", "anyone", read=True, write=True, admin=True)])
    zk.set_acls("/plain", OPEN_ACL_UNSAFE)
    zk.create("/session", b"mine", ephemeral=True)
    other.create("/deep/lock-", b"", ephemeral=True, sequence=True)
    other.create("/deep/lock-", b"", ephemeral=True, sequence=True)
    for i in range(5):
        gone.create("/deep/gone-%d" % i, b"", ephemeral=True)
    call(zk, Create(19, "/container", b"c", 4))
    zk.create("/container/child", b"")
    zk.delete("/container/child")
    call(zk, Create(21, "/ttl", b"t", 5, 123456789))
    for path, text in (("", b""), ("/zookeeper_limits", b"count=100,bytes=10000"), ("/zookeeper_stats", b"count=0,bytes=0")):
        zk.create("/zookeeper/quota/deep" + path, text)
    for i in range(10):
        t = zk.transaction()
        t.create("/deep/multi-%d" % i, b"m")
        t.set_data("/plain", b"%d" % i)
        t.delete("/deep/multi-%d" % (i - 1), version=-1 if i else 0)
        t.check("/empty", 0)
        t.commit()
    gone.stop()
    gone.close()
    for i in range(12):
        zk.set("/deep/er", b"%d" % i)
    zk.set("/", b"root")
    return zk, other


def describe(zk, path, nodes):
    try:
        data, stat = zk.get(path)
        acls, _ = zk.get_acls(path)
        children = zk.get_children(path)
    except NoNodeError:
        sys.exit("gone: " + path)
    nodes.append({
        "path": path, "data": data.hex() if data is not None else None,
        "acl": [[a.perms, a.id.scheme, a.id.id] for a in acls],
        "czxid": stat.czxid, "mzxid": stat.mzxid, "pzxid": stat.pzxid, "ctime": stat.ctime, "mtime": stat.mtime,
        "version": stat.version, "cversion": stat.cversion, "aversion": stat.aversion, "owner": stat.ephemeralOwner,
        "children": stat.numChildren,
    })
    for child in sorted(children, key=lambda c: c.encode()):
        describe(zk, path.rstrip("/") + "/" + child, nodes)


zk, other = fill(sys.argv[1])
zk.add_auth("digest", "user:secret")
nodes = []
describe(zk, "/", nodes)
json.dump({
    "zxid": zk.last_zxid,
    "sessions": {"0x%x" % c.client_id[0]: [c._session_timeout, c.client_id[1].hex()] for c in (zk, other)},
    "nodes": nodes,
}, sys.stdout, indent=1)
sys.stdout.flush()
import os
os._exit(0)  # without an end to the sessions
