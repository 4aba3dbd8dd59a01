package cases

import (
	"fmt"
	"slices"
	"strings"

	"rollcall/integration/wire"
	"rollcall/zk/jute"
)

// again is group M: watches that a client sets again on a new connection.
var again = []row{
	{number: 232, name: "changed meanwhile", where: everywhere, run: againChanged},
	{number: 233, name: "gone meanwhile", where: everywhere, run: againGone},
	{number: 234, name: "not changed", where: everywhere, run: againUnchanged},
	{number: 235, name: "exists watches", where: everywhere, run: againExists},
	{number: 236, name: "child watches", where: everywhere, run: againChildren},
	{number: 237, name: "all lists in one packet", where: everywhere, run: againAll},
	{number: 238, name: "watches that stay", where: everywhere, run: againStaying},
	{number: 239, name: "null list", where: everywhere, run: againNull},
	{number: 240, name: "many long paths", where: everywhere, run: againMany},
}

// lists are the paths of a setWatches.
type lists struct{ data, exist, child []string }

// record returns the request: setWatches, or setWatches2 without persistent watches.
func (l lists) record(op jute.Op, since int64) wire.Record {
	data, exist, child := paths(l.data...), paths(l.exist...), paths(l.child...)
	if op == jute.OpSetWatches {
		return jute.SetWatches{RelativeZxid: since, Data: data, Exist: exist, Child: child}
	}
	return jute.SetWatches2{
		RelativeZxid: since, Data: data, Exist: exist, Child: child, Persistent: paths(), Recursive: paths(),
	}
}

func paths(of ...string) [][]byte {
	list := [][]byte{}
	for _, p := range of {
		list = append(list, []byte(p))
	}
	return list
}

// away creates nodes. A client sees them and disconnects, and then others change them. s.at has
// applied the changes when away returns. since is the last zxid that the client saw.
func (s *stage) away(made []string, meanwhile func(k *session)) (w, k *session, since int64) {
	s.Helper()
	w, k = s.pair()
	s.with(k, made...)
	since = w.ok(jute.OpPing, nil).Zxid
	w.drop()
	s.quiesce()
	meanwhile(k)
	s.quiesce()
	return w, k, since
}

// again lets a client reconnect and set its watches again. The events must come before the reply,
// without a zxid.
func (s *stage) again(w *session, op jute.Op, rec wire.Record, want ...string) *session {
	s.Helper()
	return s.againWith(w, op, rec, func(zxid int64) bool { return zxid == -1 }, want...)
}

// againWith is again for events whose zxids are right if hasRightZxid returns true for each of them, in their order.
func (s *stage) againWith(w *session, op jute.Op, rec wire.Record, hasRightZxid func(zxid int64) bool, want ...string) *session {
	s.Helper()
	w = w.resume(s.at)
	w.sendAs(jute.XidSetWatches, op, rec)
	var got []frame
	f, ok := w.next()
	for ; ok && f.isEvent(); f, ok = w.next() {
		if got = append(got, f); !hasRightZxid(f.Zxid) {
			s.Errorf("%v: %v has a wrong zxid", op, f.Reply)
		}
	}
	if !ok || f.Xid != jute.XidSetWatches || f.Err != jute.OK || len(f.Body) != 0 {
		s.Fatalf("%v: %v, % x", op, f.Reply, f.Body)
	}
	if !slices.Equal(names(got), want) {
		s.Fatalf("%v: events %v, want %v", op, names(got), want)
	}
	return w
}

func againChanged(s *stage) {
	w, k, since := s.away([]string{"/n"}, func(k *session) { k.set("/n", "y") })
	w = s.again(w, jute.OpSetWatches, lists{data: []string{"/n"}}.record(jute.OpSetWatches, since), "Changed(/n)")
	k.set("/n", "z")
	w.saw()
}

func againGone(s *stage) {
	w, k, since := s.away([]string{"/gone"}, func(k *session) { k.remove("/gone") })
	w = s.again(w, jute.OpSetWatches, lists{data: []string{"/gone"}}.record(jute.OpSetWatches, since), "Deleted(/gone)")
	k.create("/gone", jute.Persistent)
	w.saw()
}

func againUnchanged(s *stage) {
	w, k, since := s.away([]string{"/n"}, func(k *session) { k.create("/other", jute.Persistent) })
	w = s.again(w, jute.OpSetWatches, lists{data: []string{"/n"}}.record(jute.OpSetWatches, since))
	k.set("/n", "y")
	k.set("/n", "z")
	w.saw("Changed(/n)")
}

func againExists(s *stage) {
	w, k, since := s.away(nil, func(k *session) { k.create("/new", jute.Persistent) })
	w = s.again(w, jute.OpSetWatches, lists{exist: []string{"/new", "/none"}}.record(jute.OpSetWatches, since), "Created(/new)")
	k.create("/none", jute.Persistent)
	k.set("/new", "y")
	w.saw("Created(/none)")
}

func againChildren(s *stage) {
	w, k, since := s.away([]string{"/c", "/same"}, func(k *session) { k.create("/c/x", jute.Persistent) })
	w = s.again(w, jute.OpSetWatches, lists{child: []string{"/c", "/x", "/same"}}.record(jute.OpSetWatches, since),
		"Children(/c)", "Deleted(/x)")
	k.create("/same/x", jute.Persistent)
	k.create("/c/y", jute.Persistent)
	w.saw("Children(/same)")
}

func againAll(s *stage) {
	w, _, since := s.away([]string{"/n", "/c"}, func(k *session) {
		k.set("/n", "y")
		k.create("/c/x", jute.Persistent)
	})
	l := lists{child: []string{"/c", "/gone"}, exist: []string{"/c/x"}, data: []string{"/gone", "/n", "/n"}}
	for _, op := range []jute.Op{jute.OpSetWatches, jute.OpSetWatches2} {
		w = s.again(w, op, l.record(op, since), "Deleted(/gone)", "Changed(/n)", "Changed(/n)", "Created(/c/x)", "Children(/c)", "Deleted(/gone)")
	}
}

// againStaying differs from ZooKeeper, which sends none of the events that watches which stay have missed (docs/deviations.md).
func againStaying(s *stage) {
	w, k, since := s.away([]string{"/a", "/n"}, func(k *session) {
		k.set("/a", "y")
		k.set("/n", "y")
	})
	last := since
	follows := func(zxid int64) bool {
		last++
		return zxid == last
	}
	w = s.againWith(w, jute.OpSetWatches2, jute.SetWatches2{
		RelativeZxid: since, Data: paths(), Exist: paths(), Child: paths(), Persistent: paths("/a"), Recursive: paths("/n"),
	}, follows, "Changed(/a)", "Changed(/n)")
	w.checks("/a", jute.NoWatcher, jute.NoWatcher, jute.OK, jute.OK, jute.NoWatcher, jute.MarshallingError)
	w.checks("/n", jute.NoWatcher, jute.NoWatcher, jute.OK, jute.NoWatcher, jute.OK, jute.MarshallingError)
	for range 2 {
		k.set("/a", "z")
		k.set("/n", "z")
	}
	k.create("/a/x", jute.Persistent)
	k.create("/n/x", jute.Persistent)
	w.saw("Changed(/a)", "Changed(/n)", "Changed(/a)", "Changed(/n)", "Children(/a)", "Created(/n/x)")
}

func againNull(s *stage) {
	w := s.open(s.at, usual)
	w.want(jute.MarshallingError, jute.OpSetWatches, jute.SetWatches{Exist: paths(), Child: paths()})
	for i := range 5 {
		l := [5][][]byte{paths(), paths(), paths(), paths(), paths()}
		l[i] = nil
		w.want(jute.MarshallingError, jute.OpSetWatches2, jute.SetWatches2{Data: l[0], Exist: l[1], Child: l[2], Persistent: l[3], Recursive: l[4]})
	}
	w.ok(jute.OpExists, existsRequest("/"))
}

// againMany lets a client with 3,000 watches on paths of 300 characters reconnect. It sets them
// again in requests of at most 128 kB, and each fires once.
func againMany(s *stage) {
	const n, split = 3000, 128 << 10
	w, k, _ := s.away([]string{"/many"}, func(*session) {})
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("/many/%s%d", strings.Repeat("x", 290), i))
	}
	next := w.resume(s.at)
	requests := 0
	for rest := all; len(rest) > 0; requests++ {
		take, size := 0, 0
		for ; take < len(rest) && size+len(rest[take]) <= split; take++ {
			size += len(rest[take])
		}
		next.ok(jute.OpSetWatches2, lists{exist: rest[:take]}.record(jute.OpSetWatches2, 0))
		rest = rest[take:]
	}
	if requests < 5 {
		s.Fatalf("%d requests", requests)
	}
	var want []string
	for begin := 0; begin < n; begin += 500 {
		var ops []jute.MultiOp
		for _, path := range all[begin : begin+500] {
			ops = append(ops, opCreate(path, jute.Persistent), opSet(path, -1))
			want = append(want, "Created("+path+")")
		}
		k.ok(jute.OpMulti, multi(ops))
	}
	next.saw(want...)
}
