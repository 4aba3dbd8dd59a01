package client

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// pipelineCase is a request of a Pipeline about the node /a below the chroot /app.
type pipelineCase struct {
	op     jute.Op
	record appender
	send   func(ctx context.Context, p Pipeline, done func(error)) error
}

func pipelineCases() []pipelineCase {
	node, data := []byte("/app/a"), []byte("x")
	onData := func(done func(error)) func([]byte, Stat, error) {
		return func(_ []byte, _ Stat, err error) { done(err) }
	}
	onStat := func(done func(error)) func(Stat, bool, error) { return func(_ Stat, _ bool, err error) { done(err) } }
	onNames := func(done func(error)) func([]string, Stat, error) {
		return func(_ []string, _ Stat, err error) { done(err) }
	}
	onPath := func(done func(error)) func(string, Stat, error) {
		return func(_ string, _ Stat, err error) { done(err) }
	}
	return []pipelineCase{
		{jute.OpGetData, jute.GetDataRequest{Path: node}, func(ctx context.Context, p Pipeline, done func(error)) error {
			return p.Get(ctx, "/a", onData(done))
		}},
		{jute.OpGetData, jute.GetDataRequest{Path: node, Watch: true}, func(ctx context.Context, p Pipeline, done func(error)) error {
			return p.GetAndWatch(ctx, "/a", onData(done))
		}},
		{jute.OpExists, jute.ExistsRequest{Path: node}, func(ctx context.Context, p Pipeline, done func(error)) error {
			return p.Exists(ctx, "/a", onStat(done))
		}},
		{jute.OpExists, jute.ExistsRequest{Path: node, Watch: true}, func(ctx context.Context, p Pipeline, done func(error)) error {
			return p.ExistsAndWatch(ctx, "/a", onStat(done))
		}},
		{jute.OpGetChildren2, jute.GetChildrenRequest{Path: node}, func(ctx context.Context, p Pipeline, done func(error)) error {
			return p.Children(ctx, "/a", onNames(done))
		}},
		{jute.OpGetChildren2, jute.GetChildrenRequest{Path: node, Watch: true}, func(ctx context.Context, p Pipeline, done func(error)) error {
			return p.ChildrenAndWatch(ctx, "/a", onNames(done))
		}},
		{jute.OpGetChildren2, jute.GetChildrenRequest{Path: node}, func(ctx context.Context, p Pipeline, done func(error)) error {
			return p.EachChild(ctx, "/a", func(names iter.Seq2[[]byte, error], _ Stat, err error) { done(err) })
		}},
		{jute.OpSetData, jute.SetDataRequest{Path: node, Data: data, Version: 7}, func(ctx context.Context, p Pipeline, done func(error)) error {
			return p.Set(ctx, "/a", data, 7, func(_ Stat, err error) { done(err) })
		}},
		{jute.OpCreate2, createRecord(jute.EphemeralSequential, testACL), func(ctx context.Context, p Pipeline, done func(error)) error {
			return p.Create(ctx, "/a", data, EphemeralSequential.WithACL(testACL...), onPath(done))
		}},
		{
			jute.OpCreateTTL,
			jute.CreateTTLRequest{CreateRequest: createRecord(jute.PersistentWithTTL, nil), TTL: 1500},
			func(ctx context.Context, p Pipeline, done func(error)) error {
				return p.Create(ctx, "/a", data, Persistent.WithTTL(1500*time.Millisecond), onPath(done))
			},
		},
		{jute.OpDelete, jute.DeleteRequest{Path: node, Version: 7}, func(ctx context.Context, p Pipeline, done func(error)) error {
			return p.Delete(ctx, "/a", 7, done)
		}},
	}
}

// A Pipeline's requests have ZooKeeper's records. An error of the server names the request, and a malformed reply is
// ErrProtocol.
func TestRequestsOfPipeline(t *testing.T) {
	for _, tt := range pipelineCases() {
		synctest.Test(t, func(t *testing.T) {
			c, server := dialScripted(t, "a:1/app", Config{})
			for _, malformed := range []bool{false, true} {
				var got []error
				go func() {
					if err := tt.send(t.Context(), c.Pipeline(), func(err error) { got = append(got, err) }); err != nil {
						t.Error(err)
					}
				}()
				r := server.next()
				if want := tt.record.Append(nil); r.Op != tt.op || !bytes.Equal(r.record, want) {
					t.Errorf("%v %q, want %v %q", r.Op, r.record, tt.op, want)
				}
				want := ErrNoAuth
				switch {
				case !malformed:
					server.reply(r, jute.NoAuth, nil)
				case tt.op == jute.OpDelete: // its reply has no record
					want = nil
					server.reply(r, jute.OK, nil)
				default:
					want = ErrProtocol
					server.reply(r, jute.OK, rawRecord("\x00\x00"))
				}
				synctest.Wait()
				if len(got) != 1 || !errors.Is(got[0], want) || (got[0] == nil) != (want == nil) {
					t.Fatalf("%v: %v, want %v", tt.op, got, want)
				}
				if failed, ok := errors.AsType[*Error](got[0]); want != nil && (!ok || failed.Op != tt.op.String() || failed.Path != "/a") {
					t.Errorf("%v: %v", tt.op, got[0])
				}
			}
		})
	}
}

// Without a connection nothing is sent.
func TestPipelineSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialScripted(t, "a:1/app", Config{})
		_ = server.conn.Close()
		synctest.Wait()
		for _, tt := range pipelineCases() {
			err := tt.send(t.Context(), c.Pipeline(), func(error) { t.Errorf("%v: done is called", tt.op) })
			if failed, ok := errors.AsType[*Error](err); !ok || failed.Op != tt.op.String() || !errors.Is(err, ErrSuspended) {
				t.Errorf("%v: %v", tt.op, err)
			}
		}
	})
}

// The path of a node that a Pipeline has created is the one in the reply, below the chroot.
func TestPathOfCreated(t *testing.T) {
	for _, tt := range []struct{ servers, path, created, want string }{
		{"a:1", "/a", "/a", "/a"},
		{"a:1", "/a", "/a0000000001", "/a0000000001"},
		{"a:1/app", "/a", "/app/a0000000001", "/a0000000001"},
		{"a:1/app", "/app/a", "/app/app/a", "/app/a"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, server := dialScripted(t, tt.servers, Config{})
			var got string
			go func() {
				_ = c.Pipeline().Create(t.Context(), tt.path, nil, PersistentSequential, func(path string, _ Stat, _ error) { got = path })
			}()
			server.reply(server.next(), jute.OK, jute.Create2Response{Path: []byte(tt.created)})
			synctest.Wait()
			if got != tt.want {
				t.Errorf("%s of %s: the path is %q, want %q", tt.created, tt.servers, got, tt.want)
			}
		})
	}
}
