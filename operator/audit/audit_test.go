package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/zk/digest"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// disk is a sink for tests.
type disk struct {
	mu    sync.Mutex
	text  bytes.Buffer
	err   error         // of each write
	stuck chan struct{} // not nil: writes wait until it is closed
}

func (d *disk) write(lines []byte) error {
	d.mu.Lock()
	stuck := d.stuck
	d.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return d.err
	}
	d.text.Write(lines)
	return nil
}

func (d *disk) close() error { return nil }

func (d *disk) set(err error, stuck chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.stuck = err, stuck
}

// lines returns the written lines, without the lines of the start and the stop.
func (d *disk) lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(strings.Split(strings.TrimSuffix(d.text.String(), "\n"), "\n"), func(line string) bool {
		return line == "" || strings.Contains(line, "serverSt")
	})
}

// newLog returns a Log that writes to a disk, and the warnings that it logs.
func newLog(t *testing.T, s Settings) (*Log, *disk, *bytes.Buffer) {
	t.Helper()
	var warnings bytes.Buffer
	s.Enable = true
	l, err := Open(Config{Settings: s, Member: 3, Out: &bytes.Buffer{}, Logger: slog.New(slog.NewTextHandler(&warnings, nil))})
	if err != nil {
		t.Fatal(err)
	}
	d := new(disk)
	l.lineSink, l.processUser, l.lineFormatter.processUser = d, "zk", "zk"
	return l, d, &warnings
}

var bob = []*proto.Identity{{Scheme: "ip", Id: "10.0.0.7"}, {Scheme: "digest", Id: "bob:hash="}, {Scheme: "super"}}

const (
	jsonHead = `{"at":"2026-11-21T20:32:53.432Z","member":3,"session":"0x3000012f99a0001","who":["digest:bob","super:"],"fingerprints":["fcef2944"],"address":"10.0.0.7",`
	zkHead   = "2026-11-21 20:32:53,432 INFO audit.Slf4jAuditLogger: session=0x3000012f99a0001\tuser=bob,super,10.0.0.7\tip=10.0.0.7\t"
	zkTail   = "\tfingerprint=fcef2944"
	zxidTail = `,"zxid":"0x200000005"}`
	atMs     = 1795293173432
)

// told is an operation of a client with its lines in both formats.
type told struct {
	op       jute.Op
	body     []byte
	result   znode.Result
	json, zk []string // without their heads
}

func create(mode jute.CreateMode) []byte {
	return jute.CreateRequest{Path: []byte("/a"), Data: []byte("DATA"), ACL: jute.OpenACL, Flags: mode}.Append(nil)
}

func multiBody(second string) []byte {
	return jute.AppendMulti(nil, []jute.MultiOp{
		{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: []byte("/c")}},
		{Op: jute.OpCreate, Create: jute.CreateRequest{Path: []byte("/m-"), ACL: jute.OpenACL, Flags: jute.EphemeralSequential}},
		{Op: jute.OpCreateContainer, Create: jute.CreateRequest{Path: []byte("/box"), ACL: jute.OpenACL}},
		{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte(second), Data: []byte("DATA")}},
		{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte("/d")}},
	})
}

var tellings = []told{
	{
		op: jute.OpCreate, body: create(jute.PersistentSequential), result: znode.Result{Path: "/a0000000001"},
		json: []string{`"operation":"create","path":"/a0000000001","type":"persistent_sequential","result":"success"`},
		zk:   []string{"operation=create\tznode=/a0000000001\tznode_type=persistent_sequential\tresult=success"},
	},
	{
		op: jute.OpCreate2, body: create(jute.Ephemeral), result: znode.Result{Code: jute.NodeExists},
		json: []string{`"operation":"create","path":"/a","type":"ephemeral","result":"unchanged","reason":"node exists"`},
		zk:   []string{"operation=create\tznode=/a\tznode_type=ephemeral\tresult=failure"},
	},
	{
		op: jute.OpCreate2, body: create(99), result: znode.Result{Code: jute.BadArguments},
		json: []string{`"operation":"create","path":"/a","type":"mode(99)","result":"failure","error":"bad arguments"`},
		zk:   []string{"operation=create\tznode=/a\tznode_type=mode(99)\tresult=failure"},
	},
	{
		op: jute.OpCreateContainer, body: create(jute.Persistent), result: znode.Result{Path: "/a"},
		json: []string{`"operation":"create","path":"/a","type":"container","result":"success"`},
		zk:   []string{"operation=create\tznode=/a\tznode_type=container\tresult=success"},
	},
	{
		op: jute.OpCreateTTL, body: jute.CreateTTLRequest{CreateRequest: jute.CreateRequest{Path: []byte("/t"), Flags: jute.PersistentWithTTL}, TTL: 5}.Append(nil), result: znode.Result{Path: "/t"},
		json: []string{`"operation":"create","path":"/t","type":"persistent_with_ttl","result":"success"`},
		zk:   []string{"operation=create\tznode=/t\tznode_type=persistent_with_ttl\tresult=success"},
	},
	{
		op: jute.OpDelete, body: jute.DeleteRequest{Path: []byte("/a")}.Append(nil), result: znode.Result{Code: jute.NoAuth},
		json: []string{`"operation":"delete","path":"/a","result":"failure","error":"not authorized"`},
		zk:   []string{"operation=delete\tznode=/a\tresult=failure"},
	},
	{
		op: jute.OpSetData, body: jute.SetDataRequest{Path: []byte("/a"), Data: bytes.Repeat([]byte("DATA"), 1000)}.Append(nil),
		json: []string{`"operation":"setData","path":"/a","result":"success"`},
		zk:   []string{"operation=setData\tznode=/a\tresult=success"},
	},
	{
		op: jute.OpSetACL, body: jute.SetACLRequest{Path: []byte("/a"), ACL: []jute.ACL{
			{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("digest"), ID: []byte("bob:SECRET=")}}, {Perms: jute.PermRead, ID: jute.ID{Scheme: []byte("world"), ID: []byte("anyone")}},
		}}.Append(nil),
		json: []string{`"operation":"setAcl","path":"/a","acl":"digest:bob:cdrwa,world:anyone:r","result":"success"`},
		zk:   []string{"operation=setAcl\tznode=/a\tacl=digest:bob:cdrwa,world:anyone:r\tresult=success"},
	},
	{ // as zkCli sends setAcl /a auth:bob:SECRET:r, and with a mistyped scheme
		op: jute.OpSetACL, body: jute.SetACLRequest{Path: []byte("/a"), ACL: []jute.ACL{
			{Perms: jute.PermRead, ID: jute.ID{Scheme: []byte("auth"), ID: []byte("bob:SECRET")}}, {Perms: jute.PermRead, ID: jute.ID{Scheme: []byte("digset"), ID: []byte("bob:SECRET")}},
		}}.Append(nil), result: znode.Result{Code: jute.InvalidACL},
		json: []string{`"operation":"setAcl","path":"/a","acl":"auth::r,digset::r","result":"failure","error":"invalid acl"`},
		zk:   []string{"operation=setAcl\tznode=/a\tacl=auth::r,digset::r\tresult=failure"},
	},
	{
		op: jute.OpReconfig, body: jute.ReconfigRequest{}.Append(nil), result: znode.Result{Code: jute.ReconfigDisabled},
		json: []string{`"operation":"reconfig","result":"failure","error":"reconfiguration is disabled"`},
		zk:   []string{"operation=reconfig\tresult=failure"},
	},
	{
		op: jute.OpMulti, body: multiBody("/a"),
		result: znode.Result{Multi: []znode.OpResult{
			{Op: jute.OpCheck}, {Op: jute.OpCreate, Path: "/m-0000000009"}, {Op: jute.OpCreate2, Path: "/box"}, {Op: jute.OpSetData}, {Op: jute.OpDelete},
		}},
		json: []string{
			`"operation":"create","path":"/m-0000000009","type":"ephemeral_sequential","result":"success"`, `"operation":"create","path":"/box","type":"container","result":"success"`,
			`"operation":"setData","path":"/a","result":"success"`, `"operation":"delete","path":"/d","result":"success"`,
		},
		zk: []string{
			"operation=create\tznode=/m-0000000009\tznode_type=ephemeral_sequential\tresult=success", "operation=create\tznode=/box\tznode_type=container\tresult=success",
			"operation=setData\tznode=/a\tresult=success", "operation=delete\tznode=/d\tresult=success",
		},
	},
	{
		op: jute.OpMulti, body: multiBody("/gone"),
		result: znode.Result{Multi: []znode.OpResult{
			{Op: jute.OpError}, {Op: jute.OpError}, {Op: jute.OpError}, {Op: jute.OpError, Code: jute.NoNode}, {Op: jute.OpError, Code: jute.RuntimeInconsistency},
		}},
		json: []string{`"operation":"multiOperation","target":"/gone","result":"failure","error":"no node"`},
		zk:   []string{"operation=multiOperation\tresult=failure"},
	},
	{
		op: jute.OpMulti, body: multiBody("/a"), // nothing of it was done, so the create of what exists made it fail
		result: znode.Result{Multi: []znode.OpResult{
			{Op: jute.OpError}, {Op: jute.OpError}, {Op: jute.OpError, Code: jute.NodeExists}, {Op: jute.OpError, Code: jute.RuntimeInconsistency}, {Op: jute.OpError, Code: jute.RuntimeInconsistency},
		}},
		json: []string{`"operation":"multiOperation","target":"/box","result":"failure","error":"node exists"`},
		zk:   []string{"operation=multiOperation\tresult=failure"},
	},
	{
		op: jute.OpMulti, body: []byte("no multi"), result: znode.Result{Code: jute.MarshallingError},
		json: []string{`"operation":"multiOperation","result":"failure","error":"request cannot be decoded"`},
		zk:   []string{"operation=multiOperation\tresult=failure"},
	},
	{
		op: jute.OpCreateSession, body: []byte("PASSWORD"), result: znode.Result{Session: znode.Session{Timeout: 4 * time.Second}},
		json: []string{`"operation":"createSession","result":"success","timeout_ms":4000`},
		zk:   []string{"operation=createSession\tresult=success"},
	},
	{
		op: jute.OpAttach, body: []byte("PASSWORD"), result: znode.Result{Code: jute.AuthFailed},
		json: []string{`"operation":"resumeSession","result":"failure","error":"authentication failed"`},
		zk:   []string{"operation=resumeSession\tresult=failure"},
	},
	{op: jute.OpAttach, result: znode.Result{Code: jute.SessionMoved}}, // the server tries again
	{
		op:   jute.OpCloseSession,
		json: []string{`"operation":"closeSession","result":"success"`},
		zk:   []string{"operation=closeSession\tresult=success"},
	},
}

// silent are the opcodes that leave no line, with the reason.
var silent = map[string][]jute.Op{
	"reads": {
		jute.OpExists, jute.OpGetData, jute.OpGetACL, jute.OpGetChildren, jute.OpGetChildren2, jute.OpMultiRead, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpWhoAmI,
	},
	"change nothing that is replicated":             {jute.OpSync, jute.OpPing, jute.OpSetWatches, jute.OpSetWatches2, jute.OpAddWatch, jute.OpCheckWatches, jute.OpRemoveWatches},
	"an Event if it fails":                          {jute.OpAuth, jute.OpSASL},
	"only within a multi, where it changes nothing": {jute.OpCheck},
	"refused before the log":                        {jute.OpDeleteContainer},
	"no requests":                                   {jute.OpNotification, jute.OpError},
	"the log's own":                                 {jute.OpTermStart, jute.OpAnnounce, jute.OpEmpty, jute.OpIdentify},
	"an Event of the member that was asked":         {jute.OpChangeServers},
	"an Event at the leader":                        {jute.OpExpire, jute.OpKill, jute.OpReap, jute.OpSweep},
}

// Every opcode either leaves lines or is known to leave none.
func TestEveryOpcode(t *testing.T) {
	known := map[jute.Op]string{}
	for why, ops := range silent {
		for _, op := range ops {
			known[op] = why
		}
	}
	for op := range jute.AllOps() {
		audited := operations[operationIndex(op)].name != ""
		tested := slices.ContainsFunc(tellings, func(c told) bool { return c.op == op })
		if why, quiet := known[op]; audited == quiet || audited != tested {
			t.Errorf("%v: it leaves lines: %t, tested: %t, and silent: %q", op, audited, tested, why)
		}
	}
}

// Each operation leaves the lines that it should, in both formats, without data and passwords.
func TestOperations(t *testing.T) {
	for _, format := range []string{"json", "zookeeper"} {
		l, d, _ := newLog(t, Settings{ZooKeeperFormat: format == "zookeeper"})
		var want []string
		for _, c := range tellings {
			c.result.Zxid = 0x200000005
			l.AddApplied(atMs, &proto.Txn{Session: 0x3000012f99a0001, Op: int32(c.op), Body: c.body}, bob, &c.result)
			for i := range c.json {
				if format == "json" {
					want = append(want, jsonHead+c.json[i]+zxidTail)
				} else {
					want = append(want, zkHead+c.zk[i]+zkTail)
				}
			}
		}
		l.Start()
		l.Close()
		got := d.lines()
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("%s: line %d of\n%s\nwant\n%s", format, i, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		if written, dropped := l.LineCounts(); written != uint64(len(want))+2 || dropped != 0 {
			t.Errorf("%d written, %d dropped", written, dropped)
		}
		if text := d.text.String(); strings.Contains(text, "DATA") || strings.Contains(text, "SECRET") ||
			strings.Contains(text, "PASSWORD") || strings.Contains(text, "hash") {
			t.Errorf("data or secrets in\n%s", text)
		}
	}
}

// Two users with one name have two fingerprints, also if they are identities of one connection. Other schemes have none,
// because their names are whole.
func TestFingerprints(t *testing.T) {
	ids := []*proto.Identity{
		{Scheme: "ip", Id: "1.2.3.4"}, {Scheme: "digest", Id: "owner:hash1="}, {Scheme: "sasl", Id: "bob"}, {Scheme: "digest", Id: "owner:hash2="},
	}
	first, second := digest.Fingerprint("owner:hash1="), digest.Fingerprint("owner:hash2=")
	if first == second || len(first) != 8 || len(second) != 8 {
		t.Fatal(first, second)
	}
	e := Event{AtMs: 1, Ids: ids, Operation: "create"}
	if line := string((&formatter{}).appendLine(nil, &e)); !strings.Contains(line, `"who":["digest:owner","sasl:bob","digest:owner"],"fingerprints":["`+first+`","`+second+`"]`) {
		t.Error(line)
	}
	if line := string((&formatter{zooKeeper: true}).appendLine(nil, &e)); !strings.HasSuffix(line, "\tresult=success\tfingerprint="+first+","+second+"\n") {
		t.Error(line)
	}
	for range 2 * maxNames {
		e.Ids = append(e.Ids, ids[1])
	}
	var line struct{ Who, Fingerprints []string }
	if err := json.Unmarshal((&formatter{}).appendLine(nil, &e), &line); err != nil || len(line.Who) != maxNames ||
		len(line.Fingerprints) != maxNames-1 {
		t.Errorf("%d names and %d fingerprints: %v", len(line.Who), len(line.Fingerprints), err)
	}
	for i := range 2 * maxNames {
		e.Ids = append(e.Ids, &proto.Identity{Scheme: "sasl", Id: fmt.Sprint("user", i)})
	}
	text := string((&formatter{zooKeeper: true}).appendLine(nil, &e))
	_, users, _ := strings.Cut(text, "user=")
	users, _, _ = strings.Cut(users, "\t")
	if n := strings.Count(users, ",") + 1; n != maxNames+1 { // the address is the last one
		t.Errorf("%d names in %s", n, text)
	}
}

// Events that no transaction of a client causes, and the lines of the start and the stop.
func TestEvents(t *testing.T) {
	events := []struct {
		e        Event
		json, zk string
	}{
		{
			Event{AtMs: atMs, Session: 7, Address: "[::1]:99", Operation: "expireSession", Reason: "silent", Timeout: time.Second},
			`"session":"0x7","address":"::1","operation":"expireSession","result":"success","reason":"silent","timeout_ms":1000}`,
			"session=0x7\tuser=zk\tip=::1\toperation=expireSession\tresult=success",
		},
		{
			Event{AtMs: atMs, User: "super", Address: "10.0.0.9:5", Operation: "kill session", Target: "0x7", Result: Failure, Error: "no such session"},
			`"who":["user:super"],"address":"10.0.0.9","operation":"kill session","target":"0x7","result":"failure","error":"no such session"}`,
			"user=super\tip=10.0.0.9\toperation=kill session\tznode=0x7\tresult=failure",
		},
		{
			Event{AtMs: atMs, Ids: []*proto.Identity{{Scheme: "ip", Id: "1.2.3.4"}, {Scheme: "digest", Id: "a,b\t:x"}}, Operation: "authenticate"},
			`"who":["digest:a,b\u0009"],"fingerprints":["d67cb5b5"],"address":"1.2.3.4","operation":"authenticate","result":"success"}`,
			"user=a\\u002cb\\u0009,1.2.3.4\tip=1.2.3.4\toperation=authenticate\tresult=success\tfingerprint=d67cb5b5",
		},
	}
	for _, zooKeeper := range []bool{false, true} {
		l, d, _ := newLog(t, Settings{ZooKeeperFormat: zooKeeper})
		l.Start()
		for _, c := range events {
			l.Add(c.e)
		}
		l.AddRejected(5, nil, jute.OpCreate, jute.MarshallingError)
		l.AddRejected(5, nil, jute.OpExists, jute.MarshallingError) // a read
		l.Close()
		l.Close()
		got := d.lines()
		if len(got) != len(events)+1 || !strings.Contains(got[len(events)], "create") {
			t.Fatalf("%d lines: %q", len(got), got)
		}
		for i, c := range events {
			want := `{"at":"2026-11-21T20:32:53.432Z","member":3,` + c.json
			if zooKeeper {
				want = "2026-11-21 20:32:53,432 INFO audit.Slf4jAuditLogger: " + c.zk
			}
			if got[i] != want {
				t.Errorf("got\n%s\nwant\n%s", got[i], want)
			}
		}
		text := d.text.String()
		if strings.Count(text, "serverStart") != 1 || strings.Count(text, "serverStop") != 1 || strings.Count(text, "invoked") != 1 {
			t.Errorf("start and stop:\n%s", text)
		}
	}
}

// Without a Log nothing happens.
func TestNoLog(t *testing.T) {
	l, err := Open(Config{})
	if l != nil || err != nil {
		t.Fatal(l, err)
	}
	l.Start()
	l.AddApplied(0, nil, nil, nil)
	l.Add(Event{})
	l.AddRejected(0, nil, jute.OpCreate, 0)
	l.Close()
	if written, dropped := l.LineCounts(); written+dropped != 0 {
		t.Error(written, dropped)
	}
}

// While the disk is full, lines are lost and counted. When it has room again, a line has the number of missing ones.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, warnings := newLog(t, Settings{})
		add := func(n int) {
			for range n {
				l.Add(Event{Operation: "create"})
			}
			time.Sleep(2 * gatherTime)
		}
		l.Start()
		add(1)
		d.set(errors.New("no space left on device"), nil)
		add(2)
		add(3)
		d.set(nil, nil)
		add(1)
		l.Close()
		var gap struct {
			Operation string
			Dropped   int
		}
		lines := d.lines()
		if len(lines) != 3 || json.Unmarshal([]byte(lines[1]), &gap) != nil || gap.Operation != "gap" || gap.Dropped != 5 {
			t.Errorf("lines %q", lines)
		}
		if written, dropped := l.LineCounts(); written != 5 || dropped != 5 {
			t.Errorf("%d written, %d dropped", written, dropped)
		}
		if n := strings.Count(warnings.String(), "they cannot be written"); n != 1 || !strings.Contains(warnings.String(), "no space left") {
			t.Errorf("warnings %s", warnings)
		}
	})
}

// The audit log keeps nothing of a multi, which is a part of an entry of the ensemble's log.
func TestMultiIsNotKept(t *testing.T) {
	body := jute.AppendMulti(nil, []jute.MultiOp{
		{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte("/a")}}, {Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte("/b")}},
	})
	l, _, _ := newLog(t, Settings{})
	defer l.Close()
	for name, add := range map[string]func(){
		"applied": func() {
			l.AddApplied(1, &proto.Txn{Op: int32(jute.OpMulti), Body: body}, bob, &znode.Result{Multi: make([]znode.OpResult, 2)})
		},
		"failed": func() {
			l.AddApplied(1, &proto.Txn{Op: int32(jute.OpMulti), Body: body}, bob, &znode.Result{Code: jute.NoNode})
		},
		"intended": func() { l.queueIntended(&Event{}, jute.OpMulti, body) },
	} {
		if add(); cap(l.multiOps) < 2 {
			t.Errorf("%s: no memory is kept", name)
		}
		for _, op := range l.multiOps[:cap(l.multiOps)] {
			if op.Path() != nil || op.Delete.Path != nil {
				t.Errorf("%s: the operation on %s is kept", name, op.Delete.Path)
			}
		}
	}
}

// A disk that hangs blocks no caller: further lines are lost, and Close gives up after a while.
func TestHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, warnings := newLog(t, Settings{})
		l.Start()
		synctest.Wait()
		stuck := make(chan struct{})
		d.set(nil, stuck)
		body := jute.DeleteRequest{Path: []byte("/a")}.Append(nil)
		n := maxQueueBytes / 100
		begun := time.Now()
		for range n {
			l.AddApplied(1, &proto.Txn{Op: int32(jute.OpDelete), Body: body}, bob, &znode.Result{})
			if n := waiting(l); n > maxQueueBytes+1000 {
				t.Fatalf("%d bytes wait", n)
			}
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("adding lines took %v", took)
		}
		_, dropped := l.LineCounts()
		if dropped < 1000 {
			t.Fatalf("%d dropped", dropped)
		}
		time.Sleep(time.Hour)
		close(stuck)
		time.Sleep(time.Second)
		l.Add(Event{Operation: "create"})
		time.Sleep(time.Second)
		lines := d.lines()
		if len(lines) != n-int(dropped)+2 || !strings.Contains(lines[n-int(dropped)], fmt.Sprintf(`"dropped":%d`, dropped)) {
			t.Errorf("%d lines of %d with %d dropped; the last ones %q", len(lines), n, dropped, lines[len(lines)-2:])
		}
		if n := waiting(l); n != 0 {
			t.Errorf("%d bytes wait after all is written", n)
		}
		if !strings.Contains(warnings.String(), "faster than they can be written") {
			t.Errorf("warnings %s", warnings)
		}
		stuck = make(chan struct{})
		d.set(nil, stuck)
		begun = time.Now()
		ended := l.Close()
		if took := time.Since(begun); ended || took != stopTimeout || !strings.Contains(warnings.String(), "its disk hangs") {
			t.Errorf("Close: ended %t after %v; warnings %s", ended, took, warnings)
		}
		close(stuck)
		synctest.Wait()
		if !l.Close() {
			t.Error("the disk has responded, and the log has not ended")
		}
	})
}

// waiting returns the number of bytes that wait to be written.
func waiting(l *Log) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) + l.writingBytes
}

// Lines that come together are written together, without a wait if there are many.
func TestGathering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, _ := newLog(t, Settings{})
		l.Start()
		time.Sleep(time.Second)
		l.Add(Event{Operation: "create"})
		l.Add(Event{Operation: "delete"})
		time.Sleep(gatherTime - 1)
		if lines := d.lines(); len(lines) != 0 {
			t.Errorf("after too short a time: %q", lines)
		}
		time.Sleep(2 * time.Nanosecond)
		if lines := d.lines(); len(lines) != 2 {
			t.Errorf("%q", lines)
		}
		for range maxQueueBytes / 120 {
			l.Add(Event{Operation: "create"})
		}
		synctest.Wait()
		if lines := d.lines(); len(lines) < 1000 {
			t.Errorf("%d lines while the queue is half full", len(lines))
		}
		l.Close()
	})
}
