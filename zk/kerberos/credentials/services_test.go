package credentials

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"rollcall/zk/kerberos"
	"rollcall/zk/kerberos/kdctest"
)

func principal(name string) kerberos.Principal {
	return kerberos.Principal{Name: name, Realm: kdctest.Realm}
}

// servicesOf returns Services that get tickets for a principal of the KDC, at these addresses.
func servicesOf(t *testing.T, k *kdctest.KDC, name string, addresses ...string) *Services {
	t.Helper()
	keytab := k.Keytab(t, name)
	return &Services{
		ReadKeytab: func() ([]byte, error) { return keytab, nil }, Principal: principal(name), Krb5Conf: kdctest.WriteConf(t, addresses...),
	}
}

// deadAddress returns an address at which nothing listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A service gets tickets for the others by one login, from the first KDC that replies. Those for which there is no principal have an error.
func TestServices(t *testing.T) {
	k := kdctest.New(t)
	for _, name := range []string{"zk/one", "zk/two"} {
		k.Add(t, name)
	}
	k.Add(t, "zk/one") // the newest of two keys counts
	s := servicesOf(t, k, "zk/one", deadAddress(t), k.Listen(t))
	tickets, err := s.Request(t.Context(), []kerberos.Principal{principal("zk/three"), principal("zk/two")})
	if len(tickets) != 1 || tickets[0].Service != principal("zk/two") || err == nil ||
		!strings.Contains(err.Error(), "a ticket for zk/three@EXAMPLE.COM: kerberos: the KDC has no principal zk/three@EXAMPLE.COM") {
		t.Fatalf("%d tickets, %v", len(tickets), err)
	}
	if got := k.Requests(); got != 3 {
		t.Errorf("%d requests, want 3", got)
	}
	keys := k.Keytab(t, "zk/two")
	two, err := kerberos.NewAcceptor(kerberos.Config{Service: principal("zk/two"), ReadKeytab: func() ([]byte, error) { return keys, nil }})
	if err != nil {
		t.Fatal(err)
	}
	r, token, err := kerberos.NewPeerRequest(tickets[0].Ticket)
	if err != nil {
		t.Fatal(err)
	}
	reply, from, dialed, err := two.AcceptPeer(token)
	if err != nil || from != principal("zk/one") {
		t.Fatalf("%v, %v", from, err)
	}
	if dialer, err := r.TakeReply(reply); err != nil || dialer != dialed {
		t.Error(err)
	}
}

// An error names what is wrong: the keytab, krb5.conf, or the KDC.
func TestServicesFaults(t *testing.T) {
	k := kdctest.New(t)
	k.Add(t, "zk/one")
	address := k.Listen(t)
	none := func(s *Services) { s.Krb5Conf = kdctest.WriteConf(t) }
	for want, change := range map[string]func(*Services){
		"the file is gone": func(s *Services) {
			s.ReadKeytab = func() ([]byte, error) { return nil, errors.New("the file is gone") }
		},
		"it is no keytab":                  func(s *Services) { s.ReadKeytab = func() ([]byte, error) { return nil, nil } },
		"the keytab has no key of zk/two@": func(s *Services) { s.Principal = principal("zk/two") },
		"/nowhere/krb5.conf":               func(s *Services) { s.Krb5Conf = "/nowhere/krb5.conf" },

		"has no KDC of EXAMPLE.COM; add it to the section realms": none,

		"connection refused": func(s *Services) { s.Krb5Conf = kdctest.WriteConf(t, deadAddress(t)) },
	} {
		s := servicesOf(t, k, "zk/one", address)
		change(s)
		if tickets, err := s.Request(t.Context(), nil); err == nil || tickets != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A KDC that names a huge reply, or sends a part of one, is an error at once. One that hangs is one when the context ends.
func TestWrongKDC(t *testing.T) {
	k := kdctest.New(t)
	k.Add(t, "zk/one")
	for want, reply := range map[string]string{
		"a reply of 4294967295 bytes; must be at most 65535": "\xff\xff\xff\xff",
		"no reply":             "\x00",
		"the reply is cut":     "\x00\x00\x00\x09abc",
		"cannot be decoded":    "\x00\x00\x00\x00",
		"operation was cancel": "hang",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s := servicesOf(t, k, "zk/one", "kdc.example.com:88")
		s.Dial = func(dialing context.Context, address string) (net.Conn, error) {
			if address != "kdc.example.com:88" {
				t.Errorf("dialed %s", address)
			}
			if reply == "hang" {
				cancel()
				<-dialing.Done()
				return nil, errors.New("operation was cancelled")
			}
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				_, _ = there.Read(make([]byte, 4<<10))
				_, _ = there.Write([]byte(reply))
			}()
			return here, nil
		}
		began := time.Now()
		if _, err := s.Request(ctx, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if time.Since(began) > kdcTimeout {
			t.Errorf("%s: after %v", want, time.Since(began))
		}
		cancel()
	}
}
