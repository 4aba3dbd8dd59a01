package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// result appends the reply to one operation of a multi.
func result(op jute.Op, code jute.Code, body []byte, record appender) []byte {
	body = jute.MultiHeader{Type: op, Err: code}.Append(body)
	if record != nil {
		body = record.Append(body)
	}
	return body
}

// multiReplies has replies to multis, and what the caller gets for them below the chroot /app.
func multiReplies() map[*[]byte][]Result {
	stat := jute.Stat{Version: 3, DataLength: 1}
	writes := result(jute.OpCreate, jute.OK, nil, jute.PathRecord{Path: []byte("/app/a")})
	for _, op := range []jute.Op{jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL} {
		writes = result(op, jute.OK, writes, jute.Create2Response{Path: []byte("/app/b"), Stat: stat})
	}
	writes = result(jute.OpSetData, jute.OK, writes, stat)
	writes = result(jute.OpDelete, jute.OK, writes, nil)
	writes = result(jute.OpCheck, jute.OK, writes, nil)
	reads := result(jute.OpGetData, jute.OK, nil, jute.GetDataResponse{Data: []byte("x"), Stat: stat})
	names := [][]byte{[]byte("c"), []byte("d")}
	reads = result(jute.OpGetChildren, jute.OK, reads, jute.GetChildrenResponse{Children: names})
	reads = result(jute.OpError, jute.NoNode, reads, jute.ErrorResponse{Err: jute.NoNode})
	created := Result{Path: "/b", Stat: statOf(stat)}
	return map[*[]byte][]Result{
		&writes: {{Path: "/a"}, created, created, created, {Stat: statOf(stat)}, {}, {}},
		&reads:  {{Data: []byte("x"), Stat: statOf(stat)}, {Children: []string{"c", "d"}}, {Err: ErrNoNode}},
	}
}

// A multi has one result for each of its operations, whether the Client or its Pipeline sends it.
func TestResultsOfMulti(t *testing.T) {
	for body, want := range multiReplies() {
		synctest.Test(t, func(t *testing.T) {
			c, server := dialScripted(t, "a:1/app", Config{})
			ops := opsFor(want)
			var got []Result
			var err error
			go func() { got, err = c.Multi(t.Context(), ops...) }()
			server.reply(server.next(), jute.OK, rawRecord(jute.AppendMultiEnd(*body)))
			synctest.Wait()
			if !sameResults(got, want) || err != nil {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
			go func() {
				_ = c.Pipeline().Multi(t.Context(), ops, func(results []Result, failed error) {
					if !sameResults(results, want) || failed != nil {
						t.Errorf("the Pipeline got %+v, %v, want %+v", results, failed, want)
					}
				})
			}()
			server.reply(server.next(), jute.OK, rawRecord(jute.AppendMultiEnd(*body)))
			synctest.Wait()
			for _, bad := range notWhole(*body) {
				go func() { got, err = c.Multi(t.Context(), ops...) }()
				server.reply(server.next(), jute.OK, rawRecord(bad))
				synctest.Wait()
				if !errors.Is(err, ErrProtocol) || got != nil {
					t.Errorf("for a reply that is not whole: %v, %v", got, err)
				}
			}
		})
	}
}

// opsFor returns as many operations as there are results. They are reads if the results are results of reads.
func opsFor(results []Result) []Operation {
	ops := make([]Operation, len(results))
	for i := range ops {
		ops[i] = CheckOp(fmt.Sprintf("/%d", i), 1)
		if results[0].Data != nil {
			ops[i] = GetOp("/x")
		}
	}
	return ops
}

// notWhole returns replies to a multi that lack something of body.
func notWhole(body []byte) [][]byte {
	return [][]byte{jute.AppendMultiEnd(nil), jute.AppendMultiEnd(body[:len(body)-1]), body}
}

// A Pipeline sends the multi that the Client sends. If the reply is not whole, the error is ErrProtocol.
func TestMultiOfPipeline(t *testing.T) {
	for body, want := range multiReplies() {
		synctest.Test(t, func(t *testing.T) {
			c, server := dialScripted(t, "a:1/app", Config{})
			ops := opsFor(want)
			go func() { _, _ = c.Multi(t.Context(), ops...) }()
			sent := server.next()
			server.reply(sent, jute.NoAuth, nil)
			for _, bad := range notWhole(*body) {
				var got []error
				go func() {
					_ = c.Pipeline().Multi(t.Context(), ops, func(results []Result, err error) {
						if got = append(got, err); results != nil {
							t.Errorf("the results are %+v", results)
						}
					})
				}()
				r := server.next()
				if r.Op != sent.Op || !bytes.Equal(r.record, sent.record) {
					t.Errorf("the Pipeline sends %v %q, want %v %q", r.Op, r.record, sent.Op, sent.record)
				}
				server.reply(r, jute.OK, rawRecord(bad))
				synctest.Wait()
				if len(got) != 1 || !errors.Is(got[0], ErrProtocol) {
					t.Errorf("for a reply that is not whole: %v", got)
				}
			}
		})
	}
}

// A multi that the servers reject has no results. One without operations is not sent.
func TestMultiWithoutResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialScripted(t, "a:1", Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if results, err := c.Multi(ctx); results != nil || err != nil {
			t.Errorf("without operations: %v, %v", results, err)
		}
		var got []error
		go func() {
			_ = c.Pipeline().Multi(t.Context(), []Operation{ChildrenOp("/a")}, func(results []Result, err error) {
				if got = append(got, err); results != nil {
					t.Errorf("the results are %+v", results)
				}
			})
		}()
		r := server.next()
		want := jute.WatchedPath{Path: []byte("/a")}.Append(jute.MultiHeader{Type: jute.OpGetChildren, Err: -1}.Append(nil))
		if r.Op != jute.OpMultiRead || !bytes.Equal(r.record, jute.AppendMultiEnd(want)) {
			t.Errorf("%v %q was sent", r.Op, r.record)
		}
		server.reply(r, jute.NoAuth, nil)
		synctest.Wait()
		if len(got) != 1 || !errors.Is(got[0], ErrNoAuth) {
			t.Errorf("the errors are %v, want ErrNoAuth", got)
		}
	})
}

func sameResults(a, b []Result) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		if !errors.Is(x.Err, y.Err) {
			return false
		}
		if x.Err, y.Err = nil, nil; !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}
