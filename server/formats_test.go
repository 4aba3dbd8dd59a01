package server

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"

	"rollcall/internal/formats"
	"rollcall/zk/jute"
)

const releasedFile = "client.txt"

// releasedRequest is a request of the conversation.
type releasedRequest struct {
	name string
	xid  int32
	op   jute.Op
	body record
}

// releasedConversation returns the requests of a client's session, one of each kind, some that fail, and some that fire
// watches.
func releasedConversation() (all []releasedRequest) {
	path := func(p string) []byte { return []byte(p) }
	paths := func(p string) [][]byte { return [][]byte{path(p)} }
	create := func(p string, flags jute.CreateMode) jute.CreateRequest {
		return jute.CreateRequest{Path: path(p), Data: []byte("data of " + p), ACL: jute.OpenACL, Flags: flags}
	}
	add := func(name string, xid int32, op jute.Op, body record) {
		all = append(all, releasedRequest{name, xid, op, body})
	}
	next := int32(0)
	call := func(op jute.Op, body record) {
		next++
		add(fmt.Sprintf("%02d %v", next, op), next, op, body)
	}
	call(jute.OpCreate, create("/a", jute.Persistent))
	call(jute.OpCreate2, create("/a/n-", jute.PersistentSequential))
	call(jute.OpCreate, create("/a/e", jute.Ephemeral))
	call(jute.OpCreateContainer, create("/c", jute.Container))
	call(jute.OpCreateTTL, jute.CreateTTLRequest{CreateRequest: create("/t", jute.PersistentWithTTL), TTL: 5000})
	call(jute.OpCreate, create("/a", jute.Persistent)) // NodeExists
	call(jute.OpExists, jute.WatchedPath{Path: path("/later"), Watch: true})
	call(jute.OpGetData, jute.WatchedPath{Path: path("/a"), Watch: true})
	call(jute.OpGetChildren, jute.WatchedPath{Path: path("/a"), Watch: true})
	call(jute.OpAddWatch, jute.AddWatchRequest{Path: path("/a"), Mode: jute.AddWatchPersistentRecursive})
	call(jute.OpSetData, jute.SetDataRequest{Path: path("/a"), Data: nil, Version: 0})
	call(jute.OpCreate, create("/later", jute.Persistent))
	call(jute.OpCreate, create("/a/d", jute.Persistent))
	call(jute.OpDelete, jute.VersionedPath{Path: path("/a/d"), Version: 0})
	call(jute.OpDelete, jute.VersionedPath{Path: path("/a"), Version: -1}) // NotEmpty
	call(jute.OpGetACL, jute.PathRecord{Path: path("/a")})
	call(jute.OpSetACL, jute.SetACLRequest{Path: path("/later"), ACL: []jute.ACL{{
		Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("ip"), ID: []byte("10.0.0.0/8")},
	}}, Version: 0})
	call(jute.OpGetData, jute.WatchedPath{Path: path("/later")}) // NoAuth
	call(jute.OpGetChildren2, jute.WatchedPath{Path: path("/")})
	call(jute.OpGetAllChildrenNumber, jute.PathRecord{Path: path("/")})
	call(jute.OpGetEphemerals, jute.PathRecord{Path: path("/")})
	call(jute.OpSync, jute.PathRecord{Path: path("/a")})
	call(jute.OpMulti, raw(jute.AppendMulti(nil, []jute.MultiOp{
		{Op: jute.OpCheck, Check: jute.VersionedPath{Path: path("/a"), Version: 1}},
		{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: path("/c"), Data: []byte("new"), Version: -1}},
		{Op: jute.OpDelete, Delete: jute.VersionedPath{Path: path("/a/n-0000000000"), Version: -1}},
	})))
	call(jute.OpMulti, raw(jute.AppendMulti(nil, []jute.MultiOp{
		{Op: jute.OpDelete, Delete: jute.VersionedPath{Path: path("/c"), Version: -1}},
		{Op: jute.OpCheck, Check: jute.VersionedPath{Path: path("/none"), Version: -1}},
	})))
	call(jute.OpMultiRead, raw(jute.AppendMulti(nil, []jute.MultiOp{
		{Op: jute.OpGetData, GetData: jute.WatchedPath{Path: path("/c")}},
		{Op: jute.OpGetChildren, GetChildren: jute.WatchedPath{Path: path("/a")}},
	})))
	call(jute.OpCheckWatches, jute.WatcherRequest{Path: path("/none"), Type: jute.WatcherAny})
	call(jute.OpRemoveWatches, jute.WatcherRequest{Path: path("/a"), Type: jute.WatcherAny})
	call(jute.OpReconfig, jute.ReconfigRequest{JoiningServers: []byte("server.4=m4:2888:3888;2181"), CurConfigID: -1})
	add("ping", jute.XidPing, jute.OpPing, raw(nil))
	add("auth", jute.XidAuth, jute.OpAuth, jute.AuthPacket{Scheme: []byte("digest"), Auth: []byte("user:password")})
	call(jute.OpWhoAmI, raw(nil))
	add("setWatches", jute.XidSetWatches, jute.OpSetWatches, jute.SetWatches{
		RelativeZxid: 1 << 40, Data: paths("/a"), Exist: paths("/none"), Child: paths("/c"),
	})
	add("setWatches2", jute.XidSetWatches, jute.OpSetWatches2, jute.SetWatches2{
		RelativeZxid: 1 << 40, Data: paths("/a"), Exist: paths("/none"), Child: paths("/c"), Persistent: paths("/a"), Recursive: paths("/c"),
	})
	call(jute.OpCloseSession, raw(nil))
	return all
}

// requestFrames returns the frames that the client sends. The first one opens the session.
func requestFrames() (frames []formats.Frame) {
	add := func(name string, records ...record) {
		frames = append(frames, formats.Frame{Name: name + isRequest, Bytes: frameOf(records...)})
	}
	add("00 connect", jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true})
	for _, r := range releasedConversation() {
		add(r.name, jute.RequestHeader{Xid: r.xid, Op: r.op}, r.body)
	}
	return frames
}

// isRequest ends the names of frames that the client sends.
const isRequest = ": request"

// converse sends requests to a new server, each after the reply to the one before. It returns them with the events and
// the reply that came after each.
func converse(t *testing.T, requests []formats.Frame) (all []formats.Frame) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, 1) // the server draws the password of the session
	c := newWorld(t, false, nil).open()
	for i, request := range requests {
		all = append(all, request)
		c.write(request.Bytes)
		name, ok := strings.CutSuffix(request.Name, isRequest)
		if !ok {
			t.Fatalf("%q is no request", request.Name)
		}
		isReply := false
		for events := 1; !isReply; events++ {
			body, err := c.read()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			what := fmt.Sprintf("event %d", events)
			if isReply = i == 0 || bytes.HasPrefix(body, request.Bytes[4:8]); isReply { // connect has no xid
				what = "reply"
			}
			all = append(all, formats.Frame{Name: name + ": " + what, Bytes: frameOf(raw(body))})
		}
	}
	return all
}

// The requests of a client, the replies and the events are those of the newest release, byte by byte. A server replies
// to the requests of every release as that release did.
func TestReleasedConversation(t *testing.T) {
	formats.CheckWritten(t, releasedFile, converse(t, requestFrames()))
	formats.EachRelease(t, releasedFile, func(t *testing.T, frames []formats.Frame) {
		requests := slices.DeleteFunc(slices.Clone(frames), func(f formats.Frame) bool { return !strings.HasSuffix(f.Name, isRequest) })
		got := converse(t, requests)
		if len(got) != len(frames) {
			t.Errorf("%d frames, want %d", len(got), len(frames))
		}
		for i := range min(len(got), len(frames)) {
			if got[i].Name != frames[i].Name || !bytes.Equal(got[i].Bytes, frames[i].Bytes) {
				t.Errorf("%s: %x\nwant %s: %x", got[i].Name, got[i].Bytes, frames[i].Name, frames[i].Bytes)
			}
		}
	})
}
