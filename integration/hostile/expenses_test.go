package hostile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	mostEntries      = 1000 // of a list, by default
	mostIdentities   = 63   // of a connection beside its address, by default
	longNodes        = 10   // that have a list of mostEntries each
	listAhead        = 128  // requests in flight on a connection
	strangersSending = 1500 // connections without a session
)

// ownedList returns a list of so many entries. They give no access, except to the client that has proved all identities, as
// the last entry.
func ownedList(entries, of int) (list []jute.ACL) {
	for i := range entries - 1 {
		list = append(list, jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("digest"), ID: fmt.Appendf(nil, "stranger%d-%d:x", of, i)}})
	}
	return append(list, jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("auth")}})
}

// prove proves so many identities. It sends all of them at once, so that an attacker takes little of the processors for that.
func prove(c *wire.Conn, identities int) error {
	var burst []byte
	for i := range identities {
		burst = appendFrame(burst, wire.Frame(1, jute.OpAuth, jute.AuthPacket{Scheme: []byte("digest"), Auth: fmt.Appendf(nil, "user%d:x", i)}))
	}
	if _, err := c.Write(burst); err != nil {
		return err
	}
	for proved := 0; proved < identities; {
		switch reply, err := c.Recv(); {
		case err != nil:
			return err
		case reply.Xid == jute.XidNotification:
		case reply.Err != jute.OK:
			return reply.Err
		default:
			proved++
		}
	}
	return nil
}

func attackPath(i int) []byte { return fmt.Appendf(nil, "/attack%d", i) }

// long creates the nodes with the longest lists.
func long(t *testing.T, b *besieged) {
	c := &other{Conn: dial(t, b.Members[0], ""), member: b.Members[0], path: []byte("the nodes with long lists")}
	if _, err := c.Open(othersTimeout); err != nil {
		t.Fatal(err)
	}
	if err := prove(c.Conn, mostIdentities); err != nil {
		t.Fatal(err)
	}
	for i := range longNodes {
		c.call(t, jute.OpCreate, jute.CreateRequest{Path: attackPath(i), ACL: ownedList(mostEntries-mostIdentities+1, i)})
	}
}

// longSets are the nodes' numbers in a multi of 10,000 writes.
func longSets() raw {
	var ops []jute.MultiOp
	for i := range multiOps {
		ops = append(ops, jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: attackPath(i % longNodes), Version: -1}})
	}
	return jute.AppendMulti(nil, ops)
}

// The attack has two requests: a node with 20,000 entries, and a multi that checks them 10,000 times. Its parts are
// rejected.
func TestListsAreBounded(t *testing.T) {
	needs.Check(t, needs.Nightly)
	_, o := startMembers(t, expenseCollect, "")
	m := o.sessions[0].member
	c := &other{Conn: dial(t, m, ""), member: m, path: []byte("/attack")}
	if _, err := c.Open(othersTimeout); err != nil {
		t.Fatal(err)
	}
	var addresses []jute.ACL
	for i := range 20_000 {
		addresses = append(addresses, jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("ip"), ID: fmt.Appendf(nil, "10.%d.%d.%d", i>>16, i>>8&255, i&255)}})
	}
	auth := slices.Repeat([]jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("auth")}}}, 50_000)
	for name, list := range map[string][]jute.ACL{"20,000 addresses": addresses, "50,000 entries of auth": auth, "one more than allowed": ownedList(mostEntries+1, 0)} {
		if err := prove(c.Conn, 1); err != nil {
			t.Fatal(err)
		}
		for _, op := range []jute.Op{jute.OpCreate, jute.OpSetACL} {
			var rec wire.Record = jute.CreateRequest{Path: c.path, ACL: list}
			if op == jute.OpSetACL {
				rec = jute.SetACLRequest{Path: o.sessions[0].path, ACL: list, Version: -1}
			}
			if code, err := request(c.Conn, op, rec); err != nil || code != jute.InvalidACL {
				t.Errorf("%s, %v: %v, %v, want %v", name, op, code, err, jute.InvalidACL)
			}
		}
	}
}

// Attackers do what costs most of all that the bounds allow: see expense.
func TestExpensiveRequests(t *testing.T) {
	needs.Check(t, needs.Nightly)
	for _, a := range []expense{
		{name: "sets and gets of nodes with long lists", begin: long, run: longRequests, least: 1000},
		{name: "multis below recursive watches", begin: long, run: watchedMultis, least: 1, free: freeEventsTime},
		{name: "lists of auth entries", run: amplifyLists, least: 2, free: freeMultisTime},
		{name: "lists past the memory limit", fills: true, begin: fill, run: lengthen, least: 128},
		{name: "writes below a node with 1 MB of data", begin: fat, run: fatMultis, least: 1, free: freeMultisTime},
		{name: "bytes before the handshake", run: strangersSend, least: strangersSending / 2},
	} {
		t.Run(a.name, func(t *testing.T) { besiege(t, a) })
	}
}

// longRequests: on 4 connections with 64 identities, 128 writes are in flight, and on 4 others 128 reads.
func longRequests(ctx context.Context, b *besieged) {
	b.attackers(ctx, 8, func(ctx context.Context, i int, c *wire.Conn) error {
		if err := prove(c, mostIdentities); err != nil {
			return err
		}
		return b.bursts(ctx, c, listAhead, func(n int) []byte {
			if i%2 == 0 {
				return wire.Frame(1, jute.OpSetData, jute.SetDataRequest{Path: attackPath(n % longNodes), Version: -1})
			}
			return wire.Frame(1, jute.OpGetData, jute.GetDataRequest{Path: attackPath(n % longNodes)})
		})
	})
}

// watchedMultis: one connection sends multis of 10,000 writes, and 200 with 64 identities watch them.
func watchedMultis(ctx context.Context, b *besieged) {
	multi := longSets()
	const watchers = 200
	b.attackers(ctx, watchers+1, func(ctx context.Context, i int, c *wire.Conn) error {
		if err := prove(c, mostIdentities); err != nil {
			return err
		}
		if i == watchers {
			return b.bursts(ctx, c, 1, func(int) []byte { return wire.Frame(1, jute.OpMulti, multi) })
		}
		if _, err := request(c, jute.OpAddWatch, jute.AddWatchRequest{Path: []byte("/"), Mode: jute.AddWatchPersistentRecursive}); err != nil {
			return err
		}
		for {
			if _, err := c.Recv(); err != nil {
				return err
			}
		}
	})
}

// amplifyLists: multis of create and setACL, in which lists of the client's identities stand for as much as is allowed, until
// the quota of data rejects them, and after that.
func amplifyLists(ctx context.Context, b *besieged) {
	b.attackers(ctx, 1, func(ctx context.Context, i int, c *wire.Conn) error {
		if err := prove(c, mostIdentities); err != nil {
			return err
		}
		return b.bursts(ctx, c, 2, func(n int) []byte {
			if n%2 == 1 {
				return wire.Frame(1, jute.OpSetACL, jute.SetACLRequest{Path: b.others.sessions[i].path, ACL: openTo(n, i), Version: -1})
			}
			var ops []jute.MultiOp
			for k := range 240 {
				create := jute.CreateRequest{Path: fmt.Appendf(nil, "/auth%d-%d-%d", i, time.Now().UnixNano(), k), ACL: ownedList(100, n*1000+k)}
				ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Create: create})
			}
			return wire.Frame(1, jute.OpMulti, raw(jute.AppendMulti(nil, ops)))
		})
	})
}

// openTo returns a list that is open to all, with as many other entries as are allowed.
func openTo(n, i int) []jute.ACL {
	return append(ownedList(mostEntries-mostIdentities, n*10+i), jute.OpenACL...)
}

// fill creates large nodes until the members are short of memory.
func fill(t *testing.T, b *besieged) {
	c := &other{Conn: dial(t, b.Members[0], ""), member: b.Members[0], path: []byte("the nodes that fill the memory")}
	if _, err := c.Open(othersTimeout); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * expenseLimit / bigSize {
		code, err := request(c.Conn, jute.OpCreate, jute.CreateRequest{Path: fillPath(i), Data: make([]byte, bigSize), ACL: jute.OpenACL})
		switch {
		case code == jute.NoRoom:
			return
		case err != nil || code != jute.OK:
			t.Fatal(code, err)
		}
	}
	t.Fatal("the members are not short of memory")
}

// lengthen: requests of setACL with the longest lists, each another one, of the nodes that fill the memory.
func lengthen(ctx context.Context, b *besieged) {
	b.attackers(ctx, 4, func(ctx context.Context, i int, c *wire.Conn) error {
		return b.bursts(ctx, c, listAhead/4, func(n int) []byte {
			return wire.Frame(1, jute.OpSetACL, jute.SetACLRequest{Path: fillPath(n % 60), ACL: openTo(n, i), Version: -1})
		})
	})
}

// fat creates a node with as many data as a request can have.
func fat(t *testing.T, b *besieged) {
	b.others.sessions[0].call(t, jute.OpCreate, jute.CreateRequest{Path: []byte("/fat"), Data: make([]byte, bigSize), ACL: jute.OpenACL})
}

// fatMultis: each write below the node changes it.
func fatMultis(ctx context.Context, b *besieged) {
	b.attackers(ctx, 1, func(ctx context.Context, i int, c *wire.Conn) error {
		var ops []jute.MultiOp
		for range multiOps / 2 {
			path := fmt.Appendf(nil, "/fat/%d", i)
			ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: path, ACL: jute.OpenACL}},
				jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: path, Version: -1}})
		}
		multi := raw(jute.AppendMulti(nil, ops))
		return b.bursts(ctx, c, 1, func(int) []byte { return wire.Frame(1, jute.OpMulti, multi) })
	})
}

// strangersSend: 1,500 connections, one in each millisecond, send 1 MB each before their handshake, and wait.
func strangersSend(ctx context.Context, b *besieged) {
	block := append([]byte{0, 0x0f, 0xff, 0xf0}, make([]byte, 64<<10)...)
	var all sync.WaitGroup
	for i := range strangersSending {
		all.Go(func() {
			pause(ctx, time.Duration(i)*time.Millisecond)
			sendBeforeHandshake(ctx, b, b.Members[i%len(b.Members)], block)
		})
	}
	all.Wait()
}

func sendBeforeHandshake(ctx context.Context, b *besieged, m *process.Member, block []byte) {
	sock, err := dialFrom(ctx, m, expenseFrom)
	if err != nil {
		return
	}
	defer sock.Close()
	defer context.AfterFunc(ctx, func() { _ = sock.Close() })()
	for range (1 << 20) / len(block) {
		if _, err := sock.Write(block); err != nil {
			break
		}
	}
	b.done.Add(1)
	_, _ = sock.Read(make([]byte, 1)) // until the member closes it
}
