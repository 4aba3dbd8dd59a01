package rollcalltest_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	rollcallclient "rollcall/client"
	"rollcall/rollcalltest"
)

// nameService replies to queries for the SRV records of one name over UDP, with so many records for a port of this
// machine.
func nameService(t *testing.T, name string, records int, port uint16) *net.Resolver {
	t.Helper()
	sock, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sock.Close() })
	go func() {
		packet := make([]byte, 4096)
		for {
			n, from, err := sock.ReadFrom(packet)
			if err != nil {
				return
			}
			var query dnsmessage.Message
			if query.Unpack(packet[:n]) != nil || len(query.Questions) != 1 {
				continue
			}
			asked := query.Questions[0]
			reply := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true}, Questions: query.Questions}
			if asked.Name.String() != name || asked.Type != dnsmessage.TypeSRV {
				reply.RCode = dnsmessage.RCodeNameError
			} else {
				for range records {
					reply.Answers = append(reply.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{Name: asked.Name, Type: asked.Type, Class: asked.Class, TTL: 1},
						Body:   &dnsmessage.SRVResource{Target: dnsmessage.MustNewName("localhost."), Port: port},
					})
				}
			}
			if text, err := reply.Pack(); err == nil {
				_, _ = sock.WriteTo(text, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", sock.LocalAddr().String())
	}}
}

// A client whose list names SRV records, in its own form or in the form of ZooKeeper's Java client, finds the servers in
// DNS. A name without records, and one that DNS does not know, are errors that name it.
func TestServersFromDNS(t *testing.T) {
	const name = "_zookeeper._tcp.example.com"
	_, number, err := net.SplitHostPort(rollcalltest.Start(t).ConnectString())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	dns, empty := nameService(t, name+".", 3, uint16(port)), nameService(t, name+".", 0, 0)
	for _, list := range []string{"srv:" + name, "dns-srv://" + name, "dns-srv://" + name + "/zookeeper"} {
		c, err := rollcallclient.Dial(t.Context(), list, rollcallclient.Config{Resolver: dns})
		if err != nil {
			t.Fatalf("%s: %v", list, err)
		}
		if _, _, err := c.Get(t.Context(), "/"); err != nil {
			t.Errorf("%s: %v", list, err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for list, resolver := range map[string]*net.Resolver{"dns-srv://" + name: empty, "dns-srv://_other._tcp.example.com": dns} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		c, err := rollcallclient.Dial(ctx, list, rollcallclient.Config{Resolver: resolver})
		if err == nil {
			_ = c.Close(t.Context())
			t.Fatalf("%s: there is a server", list)
		}
		if !strings.Contains(err.Error(), "SRV records of "+strings.TrimPrefix(list, "dns-srv://")) {
			t.Errorf("%s: %v", list, err)
		}
		cancel()
	}
}
