package znode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cespare/xxhash/v2"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// sample returns a world that contains something of every kind.
func sample(t testing.TB) *world { return fillSample(newWorld(t)) }

func fillSample(w *world) *world {
	k := w.connect().auth("digest", "u:p")
	other := w.connect()
	k.must(k.create("/a", 0))
	k.must(k.createACL("/a/b", 0, append(aclOf(31, "auth", ""), aclOf(1, "ip", "10.0.0.0/8")...)))
	k.must(k.create("/a!", 0)) // between /a and /a/b by bytes, after both in a walk
	k.must(k.create("/a/b/c", 0))
	k.must(k.create("/e", 1))
	other.must(other.create("/a/n-", 3))
	k.must(k.do(jute.OpCreate, jute.CreateRequest{Path: []byte("/null"), ACL: jute.OpenACL}.Append(nil)))
	k.must(k.do(jute.OpCreate, createOp("/large", strings.Repeat("d", 3*maxBlock), 0, jute.OpenACL).Append(nil)))
	k.must(k.setData("/a", "changed", -1))
	k.must(k.container("/used"))
	k.must(k.create("/used/x", 0))
	k.must(k.delete("/used/x", -1))
	k.must(k.container("/unused"))
	k.must(k.createTTL("/ttl", 5, 1000))
	k.setQuota("/a", "count=3,bytes=-1")
	left := w.connect()
	left.must(left.create("/a/left1", 1))
	left.must(left.create("/a/left2", 1))
	w.s().allow(1)
	left.must(left.close())
	killed := w.connect()
	w.kill(killed.id, killed.since(), "an operator")
	w.rules.SASL, w.rules.DataQuota = true, 1<<40
	w.rule(w.rules)
	w.rules.Reconfig = true
	w.list = &proto.ServerList{Ensemble: bytes.Repeat([]byte{5}, 32), Servers: []string{
		"server.1=a:1:2:participant;0.0.0.0:3", "server.2=b:1:2:participant;0.0.0.0:3", "server.9=c:1:2:observer",
	}}
	w.rule(w.rules)
	return w
}

func restored(t testing.TB, snapshot []byte) *State {
	t.Helper()
	s := New(Config{})
	if err := s.RestoreSnapshot(bytes.NewReader(snapshot)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSnapshotRestores(t *testing.T) {
	w := sample(t)
	snapshot := encode(t, w.s().Snapshot())
	s := New(Config{Hooks: w.heard})
	w.heard.log = nil
	if err := s.RestoreSnapshot(iotest.OneByteReader(bytes.NewReader(snapshot))); err != nil {
		t.Fatal(err)
	}
	w.wantLog("restored", "listed 300000000")
	if d := Diff(w.s(), s); d != "" {
		t.Error(d)
	}
	checkInvariants(t, s)
	if !bytes.Equal(encode(t, s.Snapshot()), snapshot) {
		t.Error("the restored state writes another snapshot")
	}
	w.states = append(w.states, s) // from here on it applies the same log
	k := w.connect()
	k.must(k.create("/a/n-", 2))
	w.expire(1<<56+1, w.index)
	if d := Diff(w.s(), s); d != "" {
		t.Error(d)
	}
	checkInvariants(t, s)
}

// Verify returns the index and the term of a snapshot that contains something of every kind.
func TestVerify(t *testing.T) {
	w := sample(t)
	for i := range 100 {
		w.connect().must(w.connect().create(fmt.Sprintf("/a/b%d", i), 0))
	}
	sn := w.s().Snapshot()
	index, term, err := VerifySnapshot(iotest.OneByteReader(bytes.NewReader(encode(t, sn))))
	if err != nil || index != sn.Head().Index || term != w.s().Term().Term || term == 0 {
		t.Errorf("index %d, term %d, %v, want %d and %d", index, term, err, sn.Head().Index, w.s().Term().Term)
	}
}

// A snapshot does not change when the state does.
func TestSnapshotIsFixed(t *testing.T) {
	w := sample(t)
	k := w.connect()
	for i := range 300 {
		k.must(k.create(fmt.Sprintf("/a/%d", i), 0))
	}
	sn := w.s().Snapshot()
	before := encode(t, sn)
	for i := range 300 {
		k.must(k.delete(fmt.Sprintf("/a/%d", i), 0))
		k.must(k.create(fmt.Sprintf("/a/x%d", i), 1))
	}
	k.must(k.setData("/a", "again", -1))
	editedNode(w.s(), w.s().gen.Load(), "/a").ensureOwnExtra().createCount++
	k.must(k.close())
	w.connect()
	if !bytes.Equal(encode(t, sn), before) {
		t.Error("the snapshot changed")
	}
	if sn.Head().Index >= w.index {
		t.Errorf("index %d of %d", sn.Head().Index, w.index)
	}
}

// WriteTo may run while entries are applied. The race detector checks that.
func TestSnapshotWhileWriting(t *testing.T) {
	w := sample(t)
	k := w.connect()
	s := w.s()
	s.RLock()
	sn := s.Snapshot()
	s.RUnlock()
	want := encode(t, sn)
	done := make(chan error)
	go func() {
		var err error
		for range 20 {
			var b bytes.Buffer
			if _, err = sn.WriteTo(&b); err == nil && !bytes.Equal(b.Bytes(), want) {
				err = errors.New("the copy changed")
			}
			if err != nil {
				break
			}
		}
		done <- err
	}()
	for i := range 500 {
		k.must(k.create(fmt.Sprintf("/w%d", i), 0))
		k.must(k.setData("/a", fmt.Sprint(i), -1))
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Restore and Verify notice all damage: a flipped bit in any byte, and a snapshot cut at any
// length.
func TestRestoreRejectsDamage(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/a", 1))
	good := encode(t, w.s().Snapshot())
	s := restored(t, good)
	reject := func(what string, b []byte, want error) {
		t.Helper()
		err := s.RestoreSnapshot(bytes.NewReader(b))
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if _, _, verr := VerifySnapshot(bytes.NewReader(b)); fmt.Sprint(verr) != fmt.Sprint(err) {
			t.Errorf("%s: Verify says %v, Restore %v", what, verr, err)
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		reject(fmt.Sprintf("byte %d flipped", i), bad, nil)
		reject(fmt.Sprintf("cut to %d", i), good[:i], nil)
	}
	reject("longer", append(bytes.Clone(good), 0), ErrCorrupt)
	reject("foreign", []byte("PK\x03\x04 this is no snapshot"), ErrNotSnapshot)
	reject("cut", good[:len(good)-1], ErrCorrupt)
	at := len(snapshotMagic) + 4
	n := binary.BigEndian.Uint32(good[at:])
	var parts []byte // the first block as two, with good checksums
	parts = append(parts, good[:at]...)
	parts = append(binary.BigEndian.AppendUint32(parts, 5), good[at+4:at+9]...)
	parts = append(binary.BigEndian.AppendUint32(parts, 0), binary.BigEndian.AppendUint32(nil, n-5)...)
	parts = append(parts, good[at+9:]...)
	binary.BigEndian.PutUint64(parts[len(parts)-12:], 2)
	reject("short block in the middle", mend(parts), ErrCorrupt)
	if err := s.RestoreSnapshot(bytes.NewReader(mend(good))); err != nil {
		t.Errorf("mended: %v", err)
	}
	long := bytes.Clone(good)
	binary.BigEndian.PutUint32(long[len(snapshotMagic)+4:], 1<<31)
	reject("length", long, ErrCorrupt)
	broken := errors.New("disk")
	for _, read := range []int{0, len(snapshotMagic), 40} {
		err := s.RestoreSnapshot(io.MultiReader(bytes.NewReader(good[:read]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) || errors.Is(err, ErrNotSnapshot) || errors.Is(err, ErrCorrupt) {
			t.Errorf("a read that fails after %d bytes: %v", read, err)
		}
	}
	if d := Diff(w.s(), s); d != "" {
		t.Errorf("a failed restore left %s", d)
	}
}

// A snapshot of another version is rejected by its version, and one of a later version as such.
func TestSnapshotVersions(t *testing.T) {
	snapshot := encode(t, newWorld(t).s().Snapshot())
	version := snapshot[len(snapshotMagic):][:4]
	for _, tt := range []struct {
		version uint32
		newer   bool
	}{{0, false}, {snapshotVersion + 1, true}} {
		binary.BigEndian.PutUint32(version, tt.version)
		err := New(Config{}).RestoreSnapshot(bytes.NewReader(snapshot))
		if !errors.Is(err, ErrSnapshotVersion) || errors.Is(err, ErrNewerSnapshot) != tt.newer {
			t.Errorf("version %d: %v", tt.version, err)
		}
		if want := fmt.Sprintf("it has version %d, this program knows %d", tt.version, snapshotVersion); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("version %d: %v, want %q", tt.version, err, want)
		}
	}
}

// forged is the content of a true snapshot, which a test corrupts and then writes.
type forged struct {
	replicatedState
	nodes []*node // in the order they are written
	more  uint64  // added to their count
	off   uint64  // added to the digest
}

// at returns the node at path, so that a test can corrupt it.
func (f *forged) at(path string) *node {
	for _, n := range f.nodes {
		if n.path == path {
			return n
		}
	}
	panic(path)
}

// put replaces a session's record.
func (f *forged) put(id jute.SessionID, s Session) {
	f.sessions.put(1<<60, sessionKey(id), &s)
}

// end returns the end with a number, so that a test can corrupt it.
func (f *forged) end(number endNumber) *SessionEnd {
	e, _ := f.sessionEnds.byNumber.get(number)
	spoilt := *e
	f.sessionEnds.byNumber.put(1<<60, number, &spoilt)
	return &spoilt
}

// forgedHead returns the head, with the counts of the corrupt lists.
func (f *forged) forgedHead() ImageHead {
	h := f.imageHead()
	h.NodeCount = uint64(len(f.nodes)) + f.more
	return h
}

func (f *forged) bytes(t *testing.T) []byte {
	var out bytes.Buffer
	h := f.forgedHead()
	p := newSectionWriter(&out, &h)
	f.tree.nodeHashSum, f.sessionHashSum, f.sessionEnds.hashSum = 0, 0, 0
	for _, s := range f.sessions.all() {
		p.writeSession(s)
		f.sessionHashSum += s.hash()
	}
	for _, id := range f.unsweptIDs() {
		p.writeUnswept(id)
	}
	for _, e := range f.sessionEnds.byNumber.all() {
		p.writeSessionEnd(e)
		f.sessionEnds.hashSum += e.hash()
	}
	for _, n := range f.nodes {
		n.acl.hash = xxhash.Sum64String(n.acl.text)
		p.writeNode(n)
		f.tree.nodeHashSum += n.hash()
	}
	if err := p.writeSnapshotEnd(f.digest() + f.off); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// forgedList returns a list with that text, which need not be sound.
func forgedList(text string) *acl {
	a := &acl{text: text, hash: xxhash.Sum64String(text)}
	a.sharedExtra.acl = a
	return a
}

// spoiling is a way to corrupt a snapshot of everything.
type spoiling struct {
	name  string
	spoil func(f *forged)
	want  string // in the error
}

// spoilings returns ways that leave the checksums right. The first one corrupts nothing.
func spoilings() []spoiling {
	const first = 1<<56 + 1 // a session's id
	swapped := func(text, old, new string) *acl { return forgedList(strings.Replace(text, old, new, 1)) }
	return []spoiling{
		{"nothing", func(*forged) {}, "sound"},
		{"digest", func(f *forged) { f.off = 1 }, "its digest is"},
		{"no parent", func(f *forged) { f.at("/null").path = "/large/x/y" }, "no parent"},
		{"no built-in node", func(f *forged) {
			f.nodes = slices.DeleteFunc(f.nodes, func(n *node) bool { return strings.HasPrefix(n.path, quotaPath) })
		}, "3 of the 4 nodes that are always there"},
		{"no root", func(f *forged) { f.nodes = nil }, "0 of the 4 nodes that are always there"},
		{"second root", func(f *forged) { f.nodes = append(f.nodes, f.nodes[0]) }, "out of order"},
		{"ephemeral of nobody", func(f *forged) { f.at("/e").setLifetime(lifetime{owner: 5}) }, "owned by no session"},
		{"ephemeral parent", func(f *forged) { f.at("/a").setLifetime(lifetime{owner: first}) }, "ephemeral parent"},
		{"ephemeral built-in", func(f *forged) { f.at(quotaPath).setLifetime(lifetime{owner: first}) }, "cannot end"},
		{"container built-in", func(f *forged) { f.at(quotaPath).setLifetime(lifetime{isContainer: true}) }, "cannot end"},
		{"container root", func(f *forged) { f.at("/").setLifetime(lifetime{isContainer: true}) }, "no parent"},
		{"time to live below 0", func(f *forged) { f.at("/a").setLifetime(lifetime{ttlMs: -1}) }, "of no kind"},
		{"long time to live", func(f *forged) { f.at("/a").setLifetime(lifetime{ttlMs: jute.MaxTTL + 1}) }, "of no kind"},
		{"ephemeral root", func(f *forged) { f.at("/").setLifetime(lifetime{owner: first}) }, "no parent"},
		{"count too large", func(f *forged) { f.more++ }, "impossible"},
		{"count too small", func(f *forged) { f.more-- }, "left over"},
		{"count of creates", func(f *forged) { f.at("/a").ensureOwnExtra().createCount = jute.MaxSequence + 1 }, "wrong count"},
		{"character in path", func(f *forged) { f.at("/e").path = "/e\x01" }, "out of order"},
		{"relative path", func(f *forged) { f.at("/e").path = "e" }, "out of order"},
		{"path twice", func(f *forged) { f.at("/null").path = "/large" }, "out of order"},
		{"order", func(f *forged) { f.at("/null").path = "/f" }, "out of order"},
		{"list of nothing", func(f *forged) { f.at("/a").setACL(forgedList("\x00\x00\x00\x00"), 0) }, "has no list"},
		{"null list", func(f *forged) { f.at("/a").setACL(forgedList("\xff\xff\xff\xff"), 0) }, "has no list"},
		{"list with a tail", func(f *forged) { f.at("/a").setACL(forgedList(f.at("/").acl.text+"x"), 0) }, "has no list"},
		{"list of a foreign scheme", func(f *forged) { f.at("/a").setACL(swapped(f.at("/").acl.text, "world", "wurld"), 0) }, "has no list"},
		{"address that is none", func(f *forged) { f.at("/a").setACL(swapped(f.at("/a/b").acl.text, "10.0.0.0/8", "10.0.0.x/8"), 0) }, "has no list"},
		{"the same list twice", func(f *forged) { f.at("/null").setACL(swapped(f.at("/").acl.text, "", ""), 0) }, "has no list"},
		{"highest session", func(f *forged) { f.members[1].highestSession = 1 << 56 }, "does not follow"},
		{"highest session of another", func(f *forged) { f.members[2].highestSession = 1 << 56 }, "does not follow"},
		{"long address", func(f *forged) { f.put(first, Session{ID: first, Address: strings.Repeat("x", 256)}) }, "does not follow"},
		{"session 0", func(f *forged) { f.put(0, Session{}) }, "does not follow"},
		{"sessions out of order", func(f *forged) { f.put(first+1, Session{ID: first}) }, "does not follow"},
		{"count of sessions", func(f *forged) { f.sessions.length++ }, ""},
		{"ended session that lives", func(f *forged) { f.unsweptSessions.put(1<<60, first, struct{}{}) }, "ended session"},
		{"ended session that never was", func(f *forged) { f.unsweptSessions.put(1<<60, first+100, struct{}{}) }, "ended session"},
		{"ended session 0", func(f *forged) { f.unsweptSessions.put(1<<60, 0, struct{}{}) }, "ended session"},
		{"no ended session", func(f *forged) { f.unsweptSessions = sortedMap[sessionKey, struct{}]{} }, "owned by no session"},
		{"count of ended sessions", func(f *forged) { f.unsweptSessions.length++ }, ""},
		{"more ends than there were", func(f *forged) { f.sessionEnds.total = 1 }, "2 of 1 ends"},
		{"more ends than are kept", func(f *forged) {
			f.sessionEnds.byNumber.length, f.sessionEnds.total = maxSessionEnds+1, maxSessionEnds+1
		}, "10001 of 10001 ends"},
		{"list of a later zxid", func(f *forged) { f.serverList.Version = f.zxid + 1 }, "the list of servers has version 0x"},
		{"list of a version below 0", func(f *forged) { f.serverList.Version = -1 }, "the list of servers has version -0x1"},
		{"list without a participant", func(f *forged) { f.serverList.Servers = f.serverList.Servers[2:] }, "no participant"},
		{"list without a server", func(f *forged) { f.serverList.Servers = nil }, "the list of servers"},
		{"list out of order", func(f *forged) {
			f.serverList.Servers = slices.Clone(f.serverList.Servers)
			slices.Reverse(f.serverList.Servers)
		}, "canonical form"},
		{"list with one server twice", func(f *forged) { f.serverList.Servers = append(f.serverList.Servers[:1:1], f.serverList.Servers...) }, "canonical form"},
		{"list with a shared address", func(f *forged) {
			f.serverList.Servers = slices.Clone(f.serverList.Servers)
			f.serverList.Servers[1].Host = "a"
		}, "canonical form"},
		{"no ends of some", func(f *forged) { f.sessionEnds = sessionEnds{total: 2} }, "0 of 2 ends"},
		{"count of ends", func(f *forged) { f.sessionEnds.byNumber.length, f.sessionEnds.total = 3, 3 }, ""},
		{"end of session 0", func(f *forged) { f.end(2).Session = 0 }, "end 2"},
		{"end of a session that never was", func(f *forged) { f.end(2).Session = first + 100 }, "end 2"},
		{"ends at one zxid", func(f *forged) { f.end(2).Zxid = f.end(1).Zxid }, "end 2"},
		{"end after the last zxid", func(f *forged) { f.end(2).Zxid = f.zxid + 1 }, "end 2"},
		{"end at zxid 0", func(f *forged) { f.end(1).Zxid = 0 }, "end 1"},
		{"end with a long address", func(f *forged) { f.end(2).Address = strings.Repeat("x", maxAddressBytes+1) }, "end 2"},
		{"end asked for by a long name", func(f *forged) { f.end(2).RequestedBy = strings.Repeat("x", MaxRequesterBytes+1) }, "end 2"},
		{"close that somebody asked for", func(f *forged) { f.end(1).RequestedBy = "x" }, "end 1"},
		{"close after a silence", func(f *forged) { f.end(1).SilentFor = 1 }, "end 1"},
		{"silence below 0", func(f *forged) { f.end(2).SilentFor = -1 }, "end 2"},
		{"silence of more than a year", func(f *forged) { f.end(2).SilentFor = maxSilentMs*time.Millisecond + 1 }, "end 2"},
		{"end for no reason", func(f *forged) { f.end(2).Reason = 0 }, "end 2"},
		{"end for an unknown reason", func(f *forged) { f.end(2).Reason = ReasonKilled + 1 }, "end 2"},
	}
}

// forge returns the content of a true snapshot after it was corrupted.
func (tt spoiling) forge(t *testing.T) *forged {
	f := &forged{replicatedState: sample(t).s().Snapshot().replicated}
	f.tree.walk(func(n *node) bool { f.nodes = append(f.nodes, n.copy(1<<60)); return true })
	tt.spoil(f)
	return f
}

// A count of creates takes four bytes up to MaxCreated, and eight after it. It has no other form.
func TestCreateCountOnDisk(t *testing.T) {
	write := func(do func(p *sectionWriter)) *snapshotBuilder {
		t.Helper()
		var out bytes.Buffer
		p := &sectionWriter{blockWriter: newBlockWriter(&out), head: &ImageHead{}}
		do(p)
		if err := p.writeStreamEnd(); err != nil {
			t.Fatal(err)
		}
		return &snapshotBuilder{blocks: newBlockReader(&out)}
	}
	for n, size := range map[int64]int{0: 4, 1: 4, MaxCreated: 4, MaxCreated + 1: 8, 1<<32 + 7: 8, jute.MaxSequence: 8} {
		f := write(func(p *sectionWriter) {
			before := len(p.block)
			if p.writeCreateCount(n); len(p.block)-before != size {
				t.Errorf("%d takes %d bytes", n, len(p.block)-before)
			}
		})
		if got := f.readCreateCount(); got != n || f.blocks.checkStreamEnd() != nil {
			t.Errorf("%d is read as %d, %v", n, got, f.blocks.err)
		}
	}
	f := write(func(p *sectionWriter) { p.putUint32(longCount); p.putUint32(MaxCreated) })
	if f.readCreateCount(); f.blocks.err == nil || !strings.Contains(f.blocks.err.Error(), wrongCreateCount) {
		t.Errorf("a long form of a short count: %v", f.blocks.err)
	}
	f = write(func(p *sectionWriter) {
		p.writeHeadFields()
		p.block[len(p.block)-1] = 16
	})
	if f.readHead(); f.blocks.err == nil || !strings.Contains(f.blocks.err.Error(), "unknown rules 0x10") {
		t.Errorf("unknown rules: %v", f.blocks.err)
	}
	f = write(func(p *sectionWriter) {
		p.writeHeadFields()
		p.block[len(p.block)-1] = flagAnySASLUser
		p.putText("")
	})
	if f.readHead(); f.blocks.err == nil || !strings.Contains(f.blocks.err.Error(), "has no name") {
		t.Errorf("a rule without its name: %v", f.blocks.err)
	}
	f = write(func(p *sectionWriter) {
		p.writeHeadFields()
		p.block[len(p.block)-1] = flagReadLease
		p.putUint64(0)
	})
	if f.readHead(); f.blocks.err == nil || !strings.Contains(f.blocks.err.Error(), "has no time") {
		t.Errorf("a rule for leases without their time: %v", f.blocks.err)
	}
}

// Restore rejects snapshots whose checksums are right but whose contents are not.
func TestRestoreRejectsNonsense(t *testing.T) {
	for _, tt := range spoilings() {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.forge(t)
			err := New(Config{}).RestoreSnapshot(bytes.NewReader(f.bytes(t)))
			if _, _, verr := VerifySnapshot(bytes.NewReader(f.bytes(t))); fmt.Sprint(verr) != fmt.Sprint(err) {
				t.Errorf("Verify says %v", verr)
			}
			if tt.want == "sound" && err == nil {
				return
			}
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// If no client has written the config node, a snapshot holds no data and no version of it: each
// member has its own.
func TestRestoreRejectsConfigData(t *testing.T) {
	f := snapshotBuilder{blocks: newBlockReader(bytes.NewReader(nil)), gen: 1}
	f.state.tree.byPath = newIndex()
	f.addNode(&node{gen: 1, path: rootPath, nodeExtra: &forgedList("").sharedExtra})
	f.addNode(&node{gen: 1, path: zkPath, nodeExtra: &forgedList("").sharedExtra})
	for _, n := range []*node{{path: ConfigPath, data: packData([]byte{})}, {path: ConfigPath, data: packedData{version: -1}}} {
		if f.placementError(n, zkPath) == "" {
			t.Errorf("%+v", n)
		}
		n.mzxid = 1
		if why := f.placementError(n, zkPath); why != "" {
			t.Errorf("%+v %s", n, why)
		}
	}
}

// Restore does not allocate what a length announces before the bytes have come.
func TestRestoreAllocatesWhatArrives(t *testing.T) {
	var b bytes.Buffer
	out := newBlockWriter(&b)
	for range 6 {
		out.putUint64(1)
	}
	out.putUint32(0)              // leader
	out.putBytes(make([]byte, 4)) // rules
	out.putBytes(make([]byte, 9)) // SASL and DataQuota
	out.putBytes(make([]byte, 1)) // Reconfig
	out.putUint32(0)              // members
	out.putUint64(0)              // the list of servers
	out.putUint64(0)              // sessions
	out.putUint64(0)              // ended sessions that left nodes
	out.putUint64(0)              // ends
	out.putUint64(0)              // ends that are kept
	out.putUint64(1 << 60)        // nodes
	out.putUint32(1<<31 - 1)      // bytes of the first path
	out.putBytes([]byte("/abc"))  // all of them that come
	if err := out.writeStreamEnd(); err != nil {
		t.Fatal(err)
	}
	const runs = 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		if err := New(Config{}).RestoreSnapshot(bytes.NewReader(b.Bytes())); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%v", err)
		}
	}
	runtime.ReadMemStats(&after)
	if bytes := (after.TotalAlloc - before.TotalAlloc) / runs; bytes > 1<<20 {
		t.Errorf("%d bytes, %d allocations", bytes, (after.Mallocs-before.Mallocs)/runs)
	}
}

// Diff finds every kind of difference.
func TestDiff(t *testing.T) {
	changes := map[string]func(w *world, s *State){
		"index": func(_ *world, s *State) { s.replicated.lastIndex++ }, "zxid": func(_ *world, s *State) { s.replicated.zxid++ }, "time": func(_ *world, s *State) { s.replicated.timeMs++ },
		"latest time":     func(_ *world, s *State) { s.replicated.latestMs++ },
		"list of servers": func(_ *world, s *State) { s.replicated.serverList.EnsembleID[0]++ },
		"term":            func(_ *world, s *State) { s.replicated.term.Nonce++ }, "member 2": func(_ *world, s *State) { s.replicated.members[2].lastSeq++ },
		"session": func(_ *world, s *State) { s.replicated.sessions.delete(s.gen.Add(1), 1<<56+1) },
		`"/a/b"`: func(_ *world, s *State) {
			s.runningTxn.removeNode(s.replicated.tree.nodeAt("/a/b/c"))
			s.runningTxn.removeNode(s.replicated.tree.nodeAt("/a/b"))
		},
		`"/null"`: func(_ *world, s *State) { editedNode(s, s.gen.Add(1), "/null").data = packData([]byte{}) },
		`"/a!"`:   func(_ *world, s *State) { editedNode(s, s.gen.Add(1), "/a!").setACL(s.acls.worldList(64), 0) },
		`"/e"`:    func(_ *world, s *State) { editedNode(s, s.gen.Add(1), "/e").ensureOwnExtra().createCount += 1 },
		"ends: ":  func(_ *world, s *State) { s.replicated.sessionEnds.addNext(s.gen.Add(1), SessionEnd{}, maxSessionEnds) },
		"end 1: ": func(_ *world, s *State) {
			e, _ := s.replicated.sessionEnds.byNumber.get(1)
			other := *e
			other.RequestedBy = "another"
			s.replicated.sessionEnds.byNumber.put(s.gen.Add(1), 1, &other)
		},
		"Address:other": func(_ *world, s *State) {
			record, _ := s.replicated.session(1<<56 + 1)
			record.Address = "other"
			s.replicated.putSession(s.gen.Add(1), &record)
		},
		"session 0x1ffffffffffffff": func(_ *world, s *State) { // after all others
			s.replicated.putSession(s.gen.Add(1), &Session{ID: 0x1ffffffffffffff})
		},
		`"/zz"`: func(_ *world, s *State) {
			s.replicated.tree.linkNode(s.gen.Add(1), &node{path: "/zz", nodeExtra: &s.acls.worldList(1).sharedExtra})
		},
	}
	for want, change := range changes {
		for _, swap := range []bool{false, true} {
			w := sample(t)
			s := restored(t, encode(t, w.s().Snapshot()))
			if d := Diff(w.s(), s); d != "" {
				t.Fatal(d)
			}
			change(w, s)
			if want == `"/zz"` || want == `"/a/b"` { // the difference shows at the parent first
				want = "node"
			}
			a, b := w.s(), s
			if swap {
				a, b = b, a
			}
			if d := Diff(a, b); !strings.Contains(d, want) {
				t.Errorf("%s: %q", want, d)
			}
		}
	}
}

// A snapshot that Restore accepts makes a sound state, which is written as the same bytes again.
func FuzzRestore(f *testing.F) {
	small := newWorld(f)
	f.Add(encode(f, small.s().Snapshot()))
	k := small.connect()
	k.must(k.create("/a", 1))
	f.Add(encode(f, small.s().Snapshot()))
	small.expire(k.id, small.index)
	f.Add(encode(f, small.s().Snapshot()))
	f.Add(encode(f, sample(f).s().Snapshot()))
	f.Add(encode(f, fillSample(newWorldWithHistory(f, 1<<20)).s().Snapshot()))
	f.Fuzz(func(t *testing.T, b []byte) {
		b, ok := seal(b)
		if !ok {
			return
		}
		s := New(Config{})
		if head, _, _ := ReadImage(bytes.NewReader(b), ImageVisitor{}); head.hasHistory {
			s = New(Config{ChangeHistory: 1 << 40})
		}
		_, _, verr := VerifySnapshot(bytes.NewReader(b))
		err := s.RestoreSnapshot(bytes.NewReader(b))
		if (err == nil) != (verr == nil) {
			t.Fatalf("Restore says %v, Verify %v", err, verr)
		}
		if err != nil {
			return // the digest lies in two blocks, so it was not replaced above
		}
		again := encode(t, s.Snapshot())
		if d := Diff(s, restored(t, again)); d != "" {
			t.Error(d)
		}
		if !bytes.Equal(again, b) {
			t.Error("the restored state is written as other bytes")
		}
		checkTree(t, s)
	})
}

// seal corrects the digest and the checksums, and returns false if the bytes are no snapshot all the same.
func seal(b []byte) ([]byte, bool) {
	b = mend(b)
	f := snapshotBuilder{blocks: newBlockReader(bytes.NewReader(b)), gen: 1}
	f.state.tree.byPath = newIndex()
	f.readSections()
	const tail = 8 + 4 + 16 // digest, sum, end
	if f.blocks.getUint64(); f.blocks.checkStreamEnd() != nil || len(b) < len(snapshotMagic)+4+4+tail {
		return nil, false
	}
	copy(b[len(b)-tail:], binary.BigEndian.AppendUint64(nil, f.state.digest()))
	return mend(b), true
}

// mend corrects the checksums, so that the fuzzer gets past them.
func mend(b []byte) []byte {
	b = bytes.Clone(b)
	at := len(snapshotMagic) + 4
	if len(b) < at {
		return b
	}
	sum := crc32.Update(0, castagnoli, b[:at])
	for len(b)-at >= 8 {
		n := int(binary.BigEndian.Uint32(b[at:])) + 4
		if n == 4 {
			n = 12 // the end
		}
		if n > len(b)-at-4 {
			break
		}
		sum = crc32.Update(sum, castagnoli, b[at:at+n])
		binary.BigEndian.PutUint32(b[at+n:], sum)
		at += n + 4
	}
	return b
}
