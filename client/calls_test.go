package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// A request that is longer than the servers accept fails before it is sent, and the connection that others use stays.
// The limit applies to the whole request, as the servers count it.
func TestRequestLongerThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := dialScripted(t, "fake:1", Config{MaxRequest: 1000})
		const rest = 8 + 4 + 2 + 4 + 4 // header, path, length of the data and version
		for _, bytes := range []int{2 << 20, 1001 - rest} {
			_, err := c.Set(t.Context(), "/a", make([]byte, bytes), AnyVersion)
			wantError(t, err, ErrTooLong)
			if MayHaveHappened(err) {
				t.Errorf("it may have happened: %v", err)
			}
			wantError(t, c.Pipeline().Set(t.Context(), "/a", make([]byte, bytes), AnyVersion, nil), ErrTooLong)
		}
		go func() { s.reply(s.next(), jute.OK, jute.Stat{Version: 1}) }()
		if stat, err := c.Set(t.Context(), "/a", make([]byte, 1000-rest), AnyVersion); err != nil || stat.Version != 1 {
			t.Errorf("a request of the longest length: %+v, %v", stat, err)
		}
		if c.State().State != Connected {
			t.Errorf("the state is %v", c.State())
		}
	})
}

var testACL = []ACL{{Permissions: PermRead, Identity: Anyone}}

// requestCase is a call, with the request that it sends.
type requestCase struct {
	op     jute.Op
	record appender
	call   func(ctx context.Context, c *Client) error
}

func createRecord(mode jute.CreateMode, acl []ACL) jute.CreateRequest {
	return jute.CreateRequest{Path: []byte("/app/a"), Data: []byte("x"), ACL: aclRecords(acl), Flags: mode}
}

// requestCases has the calls of a Client about the node /a below the chroot /app.
func requestCases() []requestCase {
	node, data := []byte("/app/a"), []byte("x")
	return []requestCase{
		{jute.OpCreate2, createRecord(jute.Ephemeral, testACL), func(ctx context.Context, c *Client) error {
			_, _, err := c.Create(ctx, "/a", data, Ephemeral.WithACL(testACL...))
			return err
		}},
		{jute.OpCreate2, createRecord(jute.PersistentSequential, nil), func(ctx context.Context, c *Client) error {
			_, _, err := c.Create(ctx, "/a", data, PersistentSequential)
			return err
		}},
		{jute.OpCreateContainer, createRecord(jute.Container, nil), func(ctx context.Context, c *Client) error {
			_, _, err := c.Create(ctx, "/a", data, Container)
			return err
		}},
		{
			jute.OpCreateTTL,
			jute.CreateTTLRequest{CreateRequest: createRecord(jute.PersistentWithTTL, nil), TTL: 1500},
			func(ctx context.Context, c *Client) error {
				_, _, err := c.Create(ctx, "/a", data, Persistent.WithTTL(1500*time.Millisecond))
				return err
			},
		},
		{jute.OpSetData, jute.SetDataRequest{Path: node, Data: data, Version: 7}, func(ctx context.Context, c *Client) error {
			_, err := c.Set(ctx, "/a", data, 7)
			return err
		}},
		{jute.OpGetData, jute.GetDataRequest{Path: node}, func(ctx context.Context, c *Client) error {
			_, _, err := c.Get(ctx, "/a")
			return err
		}},
		{jute.OpGetData, jute.GetDataRequest{Path: node, Watch: true}, func(ctx context.Context, c *Client) error {
			_, _, _, err := c.GetWatch(ctx, "/a")
			return err
		}},
		{jute.OpExists, jute.ExistsRequest{Path: node}, func(ctx context.Context, c *Client) error {
			_, _, err := c.Exists(ctx, "/a")
			return err
		}},
		{jute.OpGetChildren2, jute.GetChildrenRequest{Path: node}, func(ctx context.Context, c *Client) error {
			_, _, err := c.Children(ctx, "/a")
			return err
		}},
		{jute.OpDelete, jute.DeleteRequest{Path: node, Version: 7}, func(ctx context.Context, c *Client) error {
			return c.Delete(ctx, "/a", 7)
		}},
		{jute.OpGetACL, jute.GetACLRequest{Path: node}, func(ctx context.Context, c *Client) error {
			_, _, err := c.GetACL(ctx, "/a")
			return err
		}},
		{
			jute.OpSetACL,
			jute.SetACLRequest{Path: node, ACL: aclRecords(testACL), Version: 7},
			func(ctx context.Context, c *Client) error {
				_, err := c.SetACL(ctx, "/a", testACL, 7)
				return err
			},
		},
		{
			jute.OpAddWatch,
			jute.AddWatchRequest{Path: node, Mode: jute.AddWatchPersistentRecursive},
			func(ctx context.Context, c *Client) error { return c.AddWatch(ctx, "/a", true) },
		},
		{
			jute.OpRemoveWatches,
			jute.RemoveWatchesRequest{Path: node, Type: jute.WatcherData},
			func(ctx context.Context, c *Client) error { return c.RemoveWatches(ctx, "/a", DataWatches) },
		},
		{jute.OpGetAllChildrenNumber, jute.GetAllChildrenNumberRequest{Path: node}, func(ctx context.Context, c *Client) error {
			_, err := c.CountBelow(ctx, "/a")
			return err
		}},
	}
}

// Each call sends the request that its arguments describe, below the chroot. Its error names the operation and the
// caller's path.
func TestRequestsOfCalls(t *testing.T) {
	for _, tt := range requestCases() {
		synctest.Test(t, func(t *testing.T) {
			c, server := dialScripted(t, "a:1/app", Config{})
			done := make(chan error, 1)
			go func() { done <- tt.call(t.Context(), c) }()
			r := server.next()
			if want := tt.record.Append(nil); r.Op != tt.op || !bytes.Equal(r.record, want) {
				t.Errorf("%v %q, want %v %q", r.Op, r.record, tt.op, want)
			}
			server.reply(r, jute.NoAuth, nil)
			err := <-done
			failed, ok := errors.AsType[*Error](err)
			if !ok || failed.Op != tt.op.String() || failed.Path != "/a" || !errors.Is(err, ErrNoAuth) || MayHaveHappened(err) {
				t.Errorf("%v: %v", tt.op, err)
			}
		})
	}
}

// pipelineStep is a request of a Pipeline, with its reply and what done must get.
type pipelineStep struct {
	op    jute.Op
	code  jute.Code
	reply appender
	want  []any
	send  func(ctx context.Context, p Pipeline, got func(...any)) error
}

func pipelineSteps() []pipelineStep {
	stat := jute.Stat{Version: 3}
	want := statOf(stat)
	none := error(nil)
	names := func(list ...string) (b [][]byte) {
		for _, name := range list {
			b = append(b, []byte(name))
		}
		return b
	}
	return []pipelineStep{
		{
			jute.OpGetData, jute.OK,
			jute.GetDataResponse{Data: []byte("x"), Stat: stat},
			[]any{"x", want, none},
			func(ctx context.Context, p Pipeline, got func(...any)) error {
				return p.Get(ctx, "/a", func(data []byte, stat Stat, err error) { got(string(data), stat, err) })
			},
		},
		{
			jute.OpSetData, jute.OK,
			jute.SetDataResponse{Stat: stat},
			[]any{want, none},
			func(ctx context.Context, p Pipeline, got func(...any)) error {
				return p.Set(ctx, "/a", nil, 3, func(stat Stat, err error) { got(stat, err) })
			},
		},
		{
			jute.OpCreate2, jute.OK,
			jute.Create2Response{Path: []byte("/app/a1"), Stat: stat},
			[]any{"/a1", want, none},
			func(ctx context.Context, p Pipeline, got func(...any)) error {
				return p.Create(ctx, "/a", nil, PersistentSequential, func(path string, stat Stat, err error) { got(path, stat, err) })
			},
		},
		{
			jute.OpCreateTTL, jute.OK,
			jute.Create2Response{Path: []byte("/app/a"), Stat: stat},
			[]any{"/a", want, none},
			func(ctx context.Context, p Pipeline, got func(...any)) error {
				return p.Create(ctx, "/a", nil, Persistent.WithTTL(time.Hour), func(path string, stat Stat, err error) { got(path, stat, err) })
			},
		},
		{jute.OpDelete, jute.OK, nil, []any{none}, func(ctx context.Context, p Pipeline, got func(...any)) error {
			return p.Delete(ctx, "/a", 3, func(err error) { got(err) })
		}},
		{
			jute.OpExists, jute.OK,
			jute.ExistsResponse{Stat: stat},
			[]any{want, true, none},
			func(ctx context.Context, p Pipeline, got func(...any)) error {
				return p.Exists(ctx, "/a", func(stat Stat, exists bool, err error) { got(stat, exists, err) })
			},
		},
		{
			jute.OpExists, jute.NoNode, nil,
			[]any{Stat{}, false, none},
			func(ctx context.Context, p Pipeline, got func(...any)) error {
				return p.ExistsAndWatch(ctx, "/a", func(stat Stat, exists bool, err error) { got(stat, exists, err) })
			},
		},
		{
			jute.OpGetChildren2, jute.OK,
			jute.GetChildren2Response{Children: names("b", "", "cc"), Stat: stat},
			[]any{"b", "", "cc", want, none},
			func(ctx context.Context, p Pipeline, got func(...any)) error {
				return p.Children(ctx, "/a", func(names []string, stat Stat, err error) {
					var all []any
					for _, name := range names {
						all = append(all, name)
					}
					got(append(all, stat, err)...)
				})
			},
		},
		{
			jute.OpGetChildren2, jute.OK,
			jute.GetChildren2Response{Children: names("b", "", "cc"), Stat: stat},
			[]any{"b", "", "cc", want, none},
			func(ctx context.Context, p Pipeline, got func(...any)) error {
				return p.EachChild(ctx, "/a", func(names iter.Seq2[[]byte, error], stat Stat, err error) {
					var all []any
					for name, err := range names {
						if all = append(all, string(name)); err != nil {
							all = append(all, err)
						}
					}
					got(append(all, stat, err)...)
				})
			},
		},
		{
			jute.OpMulti, jute.OK, rawRecord(jute.AppendMultiEnd(stat.Append(jute.MultiHeader{Type: jute.OpSetData}.Append(nil)))),
			[]any{1, want, none},
			func(ctx context.Context, p Pipeline, got func(...any)) error {
				ops := []Operation{SetOp("/a", nil, 2)}
				return p.Multi(ctx, ops, func(results []Result, err error) { got(len(results), results[0].Stat, err) })
			},
		},
		{jute.OpCloseSession, jute.OK, nil, []any{none}, func(ctx context.Context, p Pipeline, got func(...any)) error {
			return p.EndSession(ctx, func(err error) { got(err) })
		}},
	}
}

// A call whose reply makes no sense returns nothing of it beside the error.
func TestMalformedReplies(t *testing.T) {
	stat := jute.Stat{Version: 3}
	data := jute.GetDataResponse{Data: []byte("x"), Stat: stat}
	children := jute.GetChildren2Response{Children: [][]byte{[]byte("b")}, Stat: stat}
	acl := jute.GetACLResponse{ACL: []jute.ACL{{Perms: 1}}, Stat: stat}
	identities := jute.WhoAmIResponse{ClientInfo: []jute.ClientInfo{{AuthScheme: []byte("ip"), User: []byte("::1")}}}
	all := func(results ...any) []any { return results }
	for name, tt := range map[string]struct {
		reply appender
		call  func(ctx context.Context, c *Client) []any
	}{
		"get":      {data, func(ctx context.Context, c *Client) []any { return all(c.Get(ctx, "/a")) }},
		"set":      {stat, func(ctx context.Context, c *Client) []any { return all(c.Set(ctx, "/a", nil, 2)) }},
		"children": {children, func(ctx context.Context, c *Client) []any { return all(c.Children(ctx, "/a")) }},
		"getACL":   {acl, func(ctx context.Context, c *Client) []any { return all(c.GetACL(ctx, "/a")) }},
		"setACL":   {stat, func(ctx context.Context, c *Client) []any { return all(c.SetACL(ctx, "/a", nil, 2)) }},
		"whoAmI":   {identities, func(ctx context.Context, c *Client) []any { return all(c.WhoAmI(ctx)) }},

		"getWatch":      {data, func(ctx context.Context, c *Client) []any { return all(c.GetWatch(ctx, "/a")) }},
		"existsWatch":   {stat, func(ctx context.Context, c *Client) []any { return all(c.ExistsWatch(ctx, "/a")) }},
		"childrenWatch": {children, func(ctx context.Context, c *Client) []any { return all(c.ChildrenWatch(ctx, "/a")) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := dialServed(t, func(conn net.Conn) {
				serveReplies(conn, func(h jute.RequestHeader, _ *jute.Decoder) []byte {
					reply := tt.reply.Append(jute.ReplyHeader{Xid: h.Xid, Zxid: 9}.Append(nil))
					return reply[:len(reply)-1]
				})
			})
			results := tt.call(t.Context(), c)
			for i, result := range results[:len(results)-1] {
				if !reflect.ValueOf(result).IsZero() {
					t.Errorf("%s: result %d is %+v", name, i, result)
				}
			}
			if err, _ := results[len(results)-1].(error); !errors.Is(err, ErrProtocol) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// rawRecord is a record that is encoded already.
type rawRecord []byte

func (r rawRecord) Append(b []byte) []byte { return append(b, r...) }

// All requests of a Pipeline are sent before the first reply comes, and each function gets its own reply, although
// requests use the memory of earlier ones again.
func TestPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialScripted(t, "a:1/app", Config{})
		all := pipelineSteps()
		for round := range 3 {
			steps := all
			if round < 2 {
				steps = all[:len(all)-1] // the last one ends the session
			}
			var got [][]any
			go func() {
				for _, step := range steps {
					if err := step.send(t.Context(), c.Pipeline(), func(values ...any) { got = append(got, values) }); err != nil {
						t.Error(err)
					}
				}
			}()
			var requests []sentRequest
			for _, step := range steps {
				r := server.next()
				if requests = append(requests, r); r.Op != step.op {
					t.Errorf("%v was sent, want %v", r.Op, step.op)
				}
			}
			synctest.Wait()
			for i, step := range steps {
				server.reply(requests[i], step.code, step.reply)
			}
			synctest.Wait()
			for i, step := range steps {
				if i >= len(got) || !reflect.DeepEqual(got[i], step.want) {
					t.Fatalf("round %d: %v got %v, want %v", round, step.op, got[i:], step.want)
				}
			}
		}
	})
}

// The error of a request of a Pipeline names the request, and reports whether a write may have been carried out.
func TestPipelineFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialScripted(t, "a:1/app", Config{})
		var got []error
		go func() {
			for range 2 {
				if err := c.Pipeline().Set(t.Context(), "/a", nil, 3, func(_ Stat, err error) { got = append(got, err) }); err != nil {
					t.Error(err)
				}
			}
		}()
		first := server.next()
		server.next()
		server.reply(first, jute.BadVersion, nil)
		_ = server.conn.Close()
		synctest.Wait()
		failed, ok := errors.AsType[*Error](got[0])
		if !ok || failed.Op != "setData" || failed.Path != "/a" || !errors.Is(got[0], ErrBadVersion) || MayHaveHappened(got[0]) {
			t.Errorf("the first: %v", got[0])
		}
		if !errors.Is(got[1], ErrConnectionLost) || !MayHaveHappened(got[1]) {
			t.Errorf("the second: %v", got[1])
		}
	})
}

// A multi that fails names the operation. Config.OnEvent gets events, with paths below the chroot. LastZxid returns the
// zxid of the last reply, or the zxid before the last event.
func TestMultiErrorAndEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []Event
		c, server := dialScripted(t, "a:1/app", Config{OnEvent: func(e Event) { events = append(events, e) }})
		done := make(chan error, 1)
		go func() {
			_, err := c.Multi(t.Context(), CheckOp("/a", 1), DeleteOp("/b", 2))
			done <- err
		}()
		r := server.next()
		body := jute.ErrorResponse{}.Append(jute.MultiHeader{Type: jute.OpError}.Append(nil))
		body = jute.ErrorResponse{Err: jute.NotEmpty}.Append(jute.MultiHeader{Type: jute.OpError, Err: jute.NotEmpty}.Append(body))
		server.reply(r, jute.OK, rawRecord(jute.AppendMultiEnd(body)))
		err := <-done
		failed, ok := errors.AsType[*MultiError](err)
		if !ok || failed.Index != 1 || failed.Op != "delete" || failed.Path != "/b" || !errors.Is(err, ErrNotEmpty) {
			t.Errorf("%v", err)
		}
		server.event(jute.EventNodeDeleted, "/app/a", 9)
		synctest.Wait()
		if len(events) != 1 || events[0] != (Event{Type: NodeDeleted, Path: "/a", Zxid: 9}) || c.LastZxid() != 8 {
			t.Errorf("%v, last zxid %d", events, c.LastZxid())
		}
	})
}

// Names that a caller has stay the same, whatever the Client reads afterwards.
func TestChildrenStay(t *testing.T) {
	c := dialAtOnce(t)
	for range 20 {
		names, _, err := c.Children(t.Context(), "/bench")
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if _, _, err := c.Get(t.Context(), "/bench/node"); err != nil {
				t.Fatal(err)
			}
		}
		if i := slices.IndexFunc(names, func(name string) bool { return name != "name-0000000000" }); i >= 0 {
			t.Fatalf("name %d has become %q", i, names[i])
		}
	}
}

// FuzzChildren decodes a reply to a read of children in four ways, which must agree.
func FuzzChildren(f *testing.F) {
	f.Add(jute.GetChildren2Response{Children: [][]byte{[]byte("a"), {}, []byte("bc")}, Stat: jute.Stat{Version: 1}}.Append(nil))
	f.Add(jute.GetChildren2Response{}.Append(nil))
	f.Add([]byte{0, 0, 0, 2, 0, 0, 0, 1, 'a', 255, 255, 255, 255, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		var want jute.GetChildren2Response
		var list childNames
		shared := childNames{inReply: true}
		var encoded encodedNames
		d, e, g := jute.NewDecoder(body), jute.NewDecoder(body), jute.NewDecoder(body)
		want.Decode(&d)
		list.Decode(&e)
		ofShared := jute.NewDecoder(body)
		if shared.Decode(&ofShared); !slices.Equal(list.names, shared.names) || list.stat != shared.stat {
			t.Fatalf("%q is %q in the reply", list.names, shared.names)
		}
		stat := encoded.readFrom(&g)
		var each []string
		malformed := g.Err()
		for name, err := range encoded.eachName {
			if err != nil {
				malformed = err
				break
			}
			each = append(each, string(name))
		}
		if (d.Err() == nil) != (e.Err() == nil) || d.Err() != nil && malformed == nil {
			t.Fatalf("%v, %v, %v", d.Err(), e.Err(), malformed)
		}
		isNull := func(name []byte) bool { return name == nil }
		if d.Err() != nil || len(d.Rest()) > 0 || slices.ContainsFunc(want.Children, isNull) {
			return // what no server sends
		}
		if malformed != nil {
			t.Fatal(malformed)
		}
		if !reflect.DeepEqual(list.names, each) || len(each) != len(want.Children) || list.stat != want.Stat || stat != statOf(want.Stat) {
			t.Fatalf("%q, %q, %q", list.names, each, want.Children)
		}
		for i, name := range want.Children {
			if string(name) != each[i] {
				t.Fatalf("%q, %q", each, want.Children)
			}
		}
	})
}

// EachChild reports what makes no sense in a reply after the names that do.
func TestEachChildMalformed(t *testing.T) {
	stat := jute.Stat{}.Append(nil)
	for name, body := range map[string][]byte{
		"a name that does not end": append([]byte{0, 0, 0, 2, 0, 0, 0, 1, 'a', 0, 0, 0, 9, 'b'}, stat...),
		"a name too few":           append([]byte{0, 0, 0, 2, 0, 0, 0, 1, 'a'}, stat...),
		"bytes after the names":    append([]byte{0, 0, 0, 1, 0, 0, 0, 1, 'a', 'b'}, stat...),
	} {
		e := newEncodedNames()
		d := jute.NewDecoder(body)
		e.readFrom(&d)
		var got []string
		var failed error
		for name, err := range e.each {
			got, failed = append(got, string(name)), err
		}
		if len(got) != 2 || got[0] != "a" || !errors.Is(failed, ErrProtocol) || d.Err() != nil {
			t.Errorf("%s: %q, %v, %v", name, got, failed, d.Err())
		}
	}
}

// A loop over the names of a reply ends where it is left.
func TestEachChildIsLeft(t *testing.T) {
	e := newEncodedNames()
	d := jute.NewDecoder(jute.GetChildren2Response{Children: [][]byte{[]byte("a"), []byte("b")}}.Append(nil))
	e.readFrom(&d)
	var got []string
	for name, err := range e.each {
		if err != nil {
			t.Error(err)
		}
		got = append(got, string(name))
		break
	}
	if !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %q", got)
	}
}

// callsSeen is an Observer. It says nothing about the ends of deletes.
type callsSeen struct {
	calls []string
	last  Outcome
}

func (o *callsSeen) Begin(ctx context.Context, op, path string) (context.Context, func(Outcome)) {
	if op == "delete" {
		return ctx, nil
	}
	return ctx, func(out Outcome) {
		o.calls = append(o.calls, fmt.Sprintf("%s %s %t", op, path, errors.Is(out.Err, ErrNoAuth)))
		o.last = out
	}
}

// An Observer gets the operation, the path and the error of each call, reads that set a watch included.
func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen callsSeen
		c, server := dialScripted(t, "a:1/app", Config{Observer: &seen})
		go func() {
			_, _, _ = c.Get(t.Context(), "/a")
			_, _, _, _ = c.GetWatch(t.Context(), "/b")
			_ = c.Delete(t.Context(), "/c", AnyVersion)
			_, _ = c.Set(t.Context(), "/d", nil, AnyVersion)
		}()
		for _, code := range []jute.Code{jute.NoAuth, jute.NoAuth, jute.NoAuth, jute.NoNode} {
			server.reply(server.next(), code, nil)
		}
		synctest.Wait()
		last := seen.last
		if id, _ := c.Session(); last.Session != id || last.Server != c.Server() || last.Server == "" || last.Xid == 0 ||
			last.Zxid != 5 || last.Requests != 1 {
			t.Errorf("the last call ended with %+v", last)
		}
		if want := []string{"getData /a true", "getData /b true", "setData /d false"}; !slices.Equal(seen.calls, want) {
			t.Errorf("it saw %q, want %q", seen.calls, want)
		}
	})
}

// An Observer sees the number of a request whose reply never comes, and that none was sent of a call that is not valid.
func TestOutcomeWithoutReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen callsSeen
		c, server := dialScripted(t, "a:1", Config{Observer: &seen})
		for name, call := range map[string]func(context.Context) error{
			"get":   func(ctx context.Context) error { _, _, err := c.Get(ctx, "/a"); return err },
			"watch": func(ctx context.Context) error { _, _, _, err := c.GetWatch(ctx, "/a"); return err },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- call(ctx) }()
			r := server.next()
			cancel()
			if err := <-ended; !MayHaveHappened(err) {
				t.Errorf("%s: the error is %v", name, err)
			}
			if seen.last.Xid != r.Xid || seen.last.Zxid != 0 || seen.last.Requests != 1 {
				t.Errorf("%s: the outcome of request %d is %+v", name, r.Xid, seen.last)
			}
		}
		if _, _, err := c.Get(t.Context(), "a"); err == nil || seen.last.Xid != 0 || seen.last.Requests != 0 {
			t.Errorf("a path that is not valid: %v, %+v", err, seen.last)
		}
	})
}

// WhoAmI returns the identities that the server knows.
func TestWhoAmI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialScripted(t, "a:1", Config{})
		for _, code := range []jute.Code{jute.OK, jute.NoAuth} {
			var got []Identity
			var err error
			go func() { got, err = c.WhoAmI(t.Context()) }()
			r := server.next()
			if r.Op != jute.OpWhoAmI || len(r.record) != 0 {
				t.Errorf("%v %q was sent", r.Op, r.record)
			}
			if code != jute.OK {
				server.reply(r, code, nil)
				synctest.Wait()
				wantError(t, err, ErrNoAuth)
				continue
			}
			server.reply(r, code, jute.WhoAmIResponse{ClientInfo: []jute.ClientInfo{
				{AuthScheme: []byte("ip"), User: []byte("10.0.0.1")}, {AuthScheme: []byte("digest"), User: []byte("u")},
			}})
			synctest.Wait()
			if want := []Identity{{"ip", "10.0.0.1"}, {"digest", "u"}}; err != nil || !slices.Equal(got, want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		}
	})
}
