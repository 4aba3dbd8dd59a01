package contender

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/zk/jute"
)

// numbering is a server on a pipe that gives each node that is created one number, and notes the paths of deletions.
type numbering struct {
	number  string
	deleted []string
}

func (n *numbering) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	if _, err := jute.ReadFrame(in, nil, 1<<20); err != nil {
		return
	}
	reply := jute.ConnectResponse{TimeOut: 30_000, SessionID: 7, Passwd: make([]byte, 16)}.Append(nil)
	for jute.WriteFrame(conn, reply) == nil {
		frame, err := jute.ReadFrame(in, nil, 1<<20)
		if err != nil {
			return
		}
		d := jute.NewDecoder(frame)
		var h jute.RequestHeader
		h.Decode(&d)
		reply = jute.ReplyHeader{Xid: h.Xid, Zxid: 5}.Append(nil)
		switch h.Op {
		case jute.OpCreate2:
			reply = jute.Create2Response{Path: append(d.ReadBytes(), n.number...), Stat: jute.Stat{Czxid: 5}}.Append(reply)
		case jute.OpDelete:
			n.deleted = append(n.deleted, string(d.ReadBytes()))
		}
	}
}

// A contender does not enter with the last number or a negative one: the servers could give a smaller one after it.
func TestEnterWithLastNumber(t *testing.T) {
	for number, want := range map[string]error{
		"2147483646": nil, "2147483647": ErrNumbersUsedUp, "-2147483648": ErrNumbersUsedUp, "2147483648": nil, "9000000009000000000": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &numbering{number: number}
			c, err := client.Dial(t.Context(), "fake:1", client.Config{
				DialConn: func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go server.serve(theirs)
					return ours, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Abandon()
			x, err := Enter(t.Context(), c, Config{Parent: "/f", Layout: CuratorLock})
			if !errors.Is(err, want) || (err == nil) != (want == nil) || (x != nil) != (want == nil) {
				t.Errorf("number %s: %v, want %v", number, err, want)
			}
			synctest.Wait()
			left := !slices.ContainsFunc(server.deleted, func(path string) bool { return strings.HasSuffix(path, number) })
			if left != (want == nil) {
				t.Errorf("number %s: deleted %q", number, server.deleted)
			}
		})
	}
}
