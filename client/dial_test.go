package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

// A malformed list of servers is rejected, and the error describes the fault.
func TestDialRejects(t *testing.T) {
	for servers, want := range map[string]string{"no port": "no port", "a:1/app//x": "/app//x", "": "servers"} {
		if c, err := Dial(t.Context(), servers, Config{}); c != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", servers, c, err)
		}
	}
}

// DialConn gets the network and the address of each server.
func TestDialNetworks(t *testing.T) {
	refused := errors.New("refused")
	for servers, want := range map[string]string{"10.0.0.1:2181": "tcp 10.0.0.1:2181", "unix:/run/zk": "unix /run/zk"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			got := ""
			_, err := Dial(ctx, servers, Config{DialConn: func(_ context.Context, network, address string) (net.Conn, error) {
				got = network + " " + address
				cancel()
				return nil, refused
			}})
			if got != want || !errors.Is(err, context.Canceled) {
				t.Errorf("%s: it dials %q, %v", servers, got, err)
			}
		})
	}
}

// With Config.TLS, a connection begins with a handshake, in which the Client names the server's host.
func TestDialTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan string, 1)
		_, err := Dial(ctx, "zk.example:2281", Config{
			TLS: &tls.Config{},
			DialConn: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					_ = tls.Server(theirs, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
						asked <- h.ServerName
						return nil, errors.New("seen")
					}}).Handshake()
					cancel()
				}()
				return ours, nil
			},
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		select {
		case name := <-asked:
			if name != "zk.example" {
				t.Errorf("the handshake names %q", name)
			}
		default:
			t.Error("there was no handshake")
		}
	})
}

// Dial fails if the chroot is missing. A server may be behind, so the check is repeated after a sync, and after a broken
// connection. Any other failure is left to the calls.
func TestDialChroot(t *testing.T) {
	for _, tt := range []struct {
		name    string
		policy  SuspendedPolicy
		replies []string // "OP code"; with the code "breaks", the connection ends
		want    error
	}{
		{name: "there", replies: []string{"exists ok"}},
		{name: "missing", replies: []string{"exists no node", "sync ok", "exists no node", "closeSession ok"}, want: ErrNoNode},
		{name: "new", replies: []string{"exists no node", "sync ok", "exists ok"}},
		{name: "hidden", replies: []string{"exists no permission"}},
		{name: "no sync", replies: []string{"exists no node", "sync unimplemented"}},
		{name: "breaks", replies: []string{"exists breaks", "exists no node", "sync breaks", "exists ok"}},
		{name: "breaks, and calls fail at once", policy: Fail, replies: []string{"exists breaks"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				replies := tt.replies
				serve := func(conn net.Conn) {
					s := &scriptedServer{t: t, conn: conn, in: bufio.NewReader(conn)}
					if _, err := jute.ReadFrame(s.in, nil, 1<<20); err != nil {
						return
					}
					if jute.WriteFrame(conn, jute.ConnectResponse{TimeOut: 30_000, SessionID: 7, Passwd: make([]byte, 16)}.Append(nil)) != nil {
						return // the test is over, and the client had just connected again
					}
					for len(replies) > 0 {
						r := s.next()
						op, code, _ := strings.Cut(replies[0], " ")
						replies = replies[1:]
						if r.Op.String() != op {
							t.Errorf("%v was sent, want %s", r.Op, op)
						}
						if code == "breaks" {
							_ = conn.Close()
							return
						}
						s.reply(r, map[string]jute.Code{
							"no node": jute.NoNode, "no permission": jute.NoAuth, "unimplemented": jute.Unimplemented,
						}[code], nil)
					}
				}
				c, err := Dial(t.Context(), "a:1/app/", Config{
					WhileSuspended: tt.policy,
					DialConn: func(context.Context, string, string) (net.Conn, error) {
						ours, theirs := net.Pipe()
						go serve(theirs)
						return ours, nil
					},
				})
				if !errors.Is(err, tt.want) || (c == nil) != (err != nil) || len(replies) > 0 {
					t.Errorf("%v, want %v; %q was not asked", err, tt.want, replies)
				}
				if c != nil {
					c.Abandon()
				}
			})
		})
	}
}

// The calls about the list of servers use a node outside of the chroot.
func TestEnsembleCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialScripted(t, "a:1/app", Config{})
		e := c.Ensemble()
		list, stat := []byte("server.1=a"), jute.Stat{Version: 4}
		play := func(op jute.Op, record appender, call func() ([]byte, Stat, error)) {
			t.Helper()
			for _, code := range []jute.Code{jute.OK, jute.NoAuth} {
				var data []byte
				var got Stat
				var err error
				go func() { data, got, err = call() }()
				r := server.next()
				if r.Op != op || string(r.record) != string(record.Append(nil)) {
					t.Errorf("%v %q was sent, want %v %q", r.Op, r.record, op, record.Append(nil))
				}
				server.reply(r, code, jute.GetDataResponse{Data: list, Stat: stat})
				synctest.Wait()
				if code != jute.OK {
					if !errors.Is(err, ErrNoAuth) {
						t.Errorf("%v: %v", op, err)
					}
				} else if string(data) != string(list) || got != statOf(stat) || err != nil {
					t.Errorf("%v: %q, %+v, %v", op, data, got, err)
				}
			}
		}
		play(jute.OpGetData, jute.GetDataRequest{Path: []byte("/zookeeper/config")}, func() ([]byte, Stat, error) {
			return e.Servers(t.Context())
		})
		change := Reconfiguration{Joining: []string{"server.2=b", "server.3=c"}, Leaving: []string{"1"}, Version: 9}
		play(jute.OpReconfig, jute.ReconfigRequest{
			JoiningServers: []byte("server.2=b,server.3=c"), LeavingServers: []byte("1"), CurConfigID: 9,
		}, func() ([]byte, Stat, error) { return e.Reconfigure(t.Context(), change) })
		change = Reconfiguration{Members: []string{"server.2=b"}, Version: -1}
		all := jute.ReconfigRequest{NewMembers: []byte("server.2=b"), CurConfigID: -1}
		play(jute.OpReconfig, all, func() ([]byte, Stat, error) { return e.Reconfigure(t.Context(), change) })
		for _, bad := range []string{"b:2/app", "", "b:x"} {
			if err := e.Use(bad); err == nil {
				t.Errorf("the list %q was accepted", bad)
			}
		}
		if err := e.Use("a:1,b"); err != nil {
			t.Error(err)
		}
	})
}

// OnPong is called with the time of each ping.
func TestOnPong(t *testing.T) {
	var pongs atomic.Int32
	bubble(t, Config{OnPong: func(time.Duration) { pongs.Add(1) }}, func(t *testing.T, _ *fakezk.Server, _ *Client) {
		time.Sleep(time.Minute)
		if pongs.Load() == 0 {
			t.Error("it was never called")
		}
	})
}
