package server

import (
	"fmt"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/zk/jute"
	"rollcall/znode"
)

func TestAuth(t *testing.T) {
	tests := []struct {
		name string
		xid  int32
		rec  record
		code jute.Code
	}{
		{"digest", jute.XidAuth, auth("digest", "u:p"), jute.OK},
		{"positive xid", 9, auth("digest", "u:p"), jute.OK},
		{"no colon", jute.XidAuth, auth("digest", "blah"), jute.OK},
		{"empty text", jute.XidAuth, auth("digest", ""), jute.OK},
		{"null text", jute.XidAuth, jute.AuthPacket{Scheme: []byte("digest")}, jute.AuthFailed},
		{"ip", jute.XidAuth, auth("ip", ""), jute.OK},
		{"x509 without a certificate", jute.XidAuth, auth("x509", ""), jute.AuthFailed},
		{"foo", jute.XidAuth, auth("foo", "x"), jute.AuthFailed},
		{"world", jute.XidAuth, auth("world", "anyone"), jute.AuthFailed},
		{"auth", jute.XidAuth, auth("auth", ""), jute.AuthFailed},
		{"super", jute.XidAuth, auth("super", ""), jute.AuthFailed},
		{"null scheme", jute.XidAuth, jute.AuthPacket{}, jute.AuthFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, false, nil)
			c := w.connect()
			c.send(jute.RequestHeader{Xid: tt.xid, Op: jute.OpAuth}, tt.rec)
			if h := c.expect(tt.xid, tt.code); h.Zxid != 0 {
				t.Errorf("zxid %d, want 0", h.Zxid)
			}
			if tt.code == jute.OK {
				c.must(jute.OpPing)
				return
			}
			c.expectClosed()
			if again := w.resume(c); again.id != c.id {
				t.Error("the session is gone")
			}
		})
	}
}

// An auth packet that cannot be decoded closes the connection without a reply.
func TestAuthCutShort(t *testing.T) {
	whole := auth("digest", "u:p").Append(nil)
	for _, body := range []raw{nil, whole[:4], whole[:len(whole)-1]} {
		t.Run(fmt.Sprint(len(body)), func(t *testing.T) {
			w := newWorld(t, false, nil)
			c := w.connect()
			c.send(jute.RequestHeader{Xid: jute.XidAuth, Op: jute.OpAuth}, body)
			c.expectClosed()
			if again := w.resume(c); again.id != c.id {
				t.Error("the session is gone")
			}
		})
	}
}

// whoAmI returns the identities that a connection shows, sorted.
func (c *client) whoAmI() string {
	c.tb.Helper()
	var r jute.WhoAmIResponse
	d := jute.NewDecoder(c.must(jute.OpWhoAmI))
	if r.Decode(&d); d.Err() != nil {
		c.tb.Fatal(d.Err())
	}
	var all []string
	for _, id := range r.ClientInfo {
		all = append(all, fmt.Sprintf("%s:%s", id.AuthScheme, id.User))
	}
	sort.Strings(all)
	return strings.Join(all, " ")
}

func TestIdentities(t *testing.T) {
	w := newWorld(t, true, nil)
	c := w.connect()
	steps := []struct{ scheme, text, want string }{
		{"ip", "", "ip:127.0.0.1"},
		{"digest", "u:p", "digest:u ip:127.0.0.1"},
		{"digest", "u:p", "digest:u ip:127.0.0.1"}, // a second time: one identity all the same
		{"digest", "u:q", "digest:u digest:u ip:127.0.0.1"},
		{"digest", "super:wrong", "digest:super digest:u digest:u ip:127.0.0.1"},
		{"digest", "super:secret", "digest:super digest:super digest:u digest:u ip:127.0.0.1 super:"},
	}
	if got := c.whoAmI(); got != "ip:127.0.0.1" {
		t.Errorf("at first: %s", got)
	}
	for _, s := range steps {
		c.must(jute.OpAuth, auth(s.scheme, s.text))
		if got := c.whoAmI(); got != s.want {
			t.Errorf("after %s %s: %s, want %s", s.scheme, s.text, got, s.want)
		}
	}
	if got := w.resume(c).whoAmI(); got != "ip:127.0.0.1" {
		t.Errorf("after a resume: %s", got)
	}
}

// A text that is not UTF-8 becomes an identity like any other, which the log can hold.
func TestAuthOfAnyBytes(t *testing.T) {
	c := newWorld(t, true, nil).connect()
	c.must(jute.OpAuth, auth("digest", "a\xff\xfeb:p"))
	if got := c.whoAmI(); got != "digest:a\ufffdb ip:127.0.0.1" {
		t.Errorf("identities: %q", got)
	}
}

// Passwords are hashed by the configured algorithm, the super user's among them. Without the scheme digest no user has a
// password.
func TestDigestSettings(t *testing.T) {
	w := newWorld(t, true, func(cfg *Config) {
		cfg.Digest, cfg.SuperDigest = 2, "super:WTA5ucCHTdJq645xIMibj8HviTPeB5mMuJ4/+v1dIEw="
	})
	c := w.connect()
	c.must(jute.OpAuth, auth("digest", "super:secret"))
	if got := c.whoAmI(); !strings.Contains(got, "super:") {
		t.Errorf("identities: %q", got)
	}
	c = newWorld(t, true, func(cfg *Config) { cfg.NoDigest = true }).connect()
	c.send(jute.RequestHeader{Xid: jute.XidAuth, Op: jute.OpAuth}, auth("digest", "super:secret"))
	c.expect(jute.XidAuth, jute.AuthFailed)
	c.expectClosed()
}

// With names of the ensemble, a client that gives one of them or none is served, and one that gives another is closed. Without, the scheme
// is unknown.
func TestEnsembleNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, func(cfg *Config) { cfg.Login.EnsembleNames = []string{"blue", "green"} })
		c := w.connect()
		for _, name := range []string{"blue", "green", ""} {
			c.must(jute.OpAuth, auth("ensemble", name))
		}
		if got := c.whoAmI(); got != "ip:pipe" {
			t.Errorf("identities: %s", got)
		}
		c.send(jute.RequestHeader{Xid: jute.XidAuth, Op: jute.OpAuth}, auth("ensemble", "red"))
		c.expectClosed()
		synctest.Wait()
		if n := w.srv.Stats().EndedByReason["other_ensemble"]; n != 1 {
			t.Errorf("%d connections were closed for that reason", n)
		}
		c = newWorld(t, false, nil).connect()
		c.send(jute.RequestHeader{Xid: jute.XidAuth, Op: jute.OpAuth}, auth("ensemble", "blue"))
		c.expect(jute.XidAuth, jute.AuthFailed)
	})
}

// The super user may have any name, and the name super means nothing then.
func TestSuperUserOfAnotherName(t *testing.T) {
	w := newWorld(t, true, func(cfg *Config) { cfg.SuperDigest = cfg.Digest.IdentityOf("admin:secret") })
	c := w.connect()
	c.must(jute.OpAuth, auth("digest", "super:secret"))
	if got := c.whoAmI(); got != "digest:super ip:127.0.0.1" {
		t.Errorf("as super: %s", got)
	}
	c.must(jute.OpAuth, auth("digest", "admin:secret"))
	if got := c.whoAmI(); got != "digest:admin digest:super ip:127.0.0.1 super:" {
		t.Errorf("as admin: %s", got)
	}
}

// An identity holds for the requests after the auth packet, but not for waiting requests before it.
func TestAuthTakesEffectInOrder(t *testing.T) {
	w := newWorld(t, false, nil)
	owner := w.connect()
	owner.must(jute.OpAuth, auth("digest", "u:p"))
	acl := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("auth")}}}
	owner.must(jute.OpCreate, jute.CreateRequest{Path: []byte("/p"), ACL: acl})

	c := w.connect()
	w.hold()
	c.request(jute.OpCreate, create("/a", "", 0))
	c.request(jute.OpGetData, getData("/p", false))
	c.request(jute.OpSetData, setData("/p", "x"))
	c.request(jute.OpAuth, auth("digest", "u:p"))
	c.request(jute.OpGetData, getData("/p", false))
	c.request(jute.OpSetData, setData("/p", "y"))
	c.expectSilence(1)
	w.release()
	for i, code := range []jute.Code{jute.OK, jute.NoAuth, jute.NoAuth, jute.OK, jute.OK, jute.OK} {
		c.expect(int32(i+1), code)
	}
}

// A connection has its address and so many other identities as the limit allows. One that it has already is not counted again.
func TestIdentitiesAreBounded(t *testing.T) {
	c := newWorld(t, false, nil).connect()
	for i := range DefaultMaxIdentities - 1 {
		c.must(jute.OpAuth, auth("digest", fmt.Sprintf("user%d:p", i)))
	}
	c.must(jute.OpAuth, auth("digest", "user0:p"))
	if h, _ := c.call(jute.OpAuth, auth("digest", "one more:p")); h.Err != jute.AuthFailed {
		t.Errorf("%v, want %v", h.Err, jute.AuthFailed)
	}
	c.expectClosed()
}

// A connection may have maxIdentityBytes bytes of identities, and not one more.
func TestIdentityBoundIsExact(t *testing.T) {
	for _, tt := range []struct {
		extra int
		want  jute.Code
	}{{0, jute.OK}, {1, jute.AuthFailed}} {
		var who clientIdentity
		who.init(&authenticator{maxIdentities: DefaultMaxIdentities}, "1.2.3.4")
		id := strings.Repeat("x", maxIdentityBytes-len("ip1.2.3.4digest")+tt.extra)
		if got := who.add("digest", id); got != tt.want {
			t.Errorf("%d bytes: %v, want %v", maxIdentityBytes+tt.extra, got, tt.want)
		}
	}
}

// Identities that a client proves without writing leave nothing in the log, and all of them go into one transaction before its next write.
// If each had one of its own with all before it, the log would have fifty times as many bytes as the client sent.
func TestIdentitiesWaitForAWrite(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	before := w.countForwarded()
	for i := range DefaultMaxIdentities - 1 {
		c.must(jute.OpAuth, auth("digest", fmt.Sprintf("user%d:p", i)))
	}
	if n := w.countForwarded() - before; n != 0 {
		t.Errorf("%d transactions before the client writes", n)
	}
	for _, want := range []uint64{2, 3} { // the identities and the write, then a write
		c.must(jute.OpSetData, setData("/", ""))
		if n := w.countForwarded() - before; n != want {
			t.Errorf("%d transactions, want %d", n, want)
		}
	}
}

// A client that proves identities and writes by turns makes the log longer by each identity once. If it were longer by all identities
// each time, its record would have twenty times as many bytes as the client sent.
func TestIdentitiesAreLoggedOnce(t *testing.T) {
	const most = 3 // times the auth packets: a hash and the transaction's numbers are longer than a password
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		sent, logged := 0, 0
		for i := range DefaultMaxIdentities - 1 {
			packet := auth("digest", fmt.Sprintf("user%d:p", i))
			sent += len(frameOf(jute.RequestHeader{Op: jute.OpAuth}, packet))
			c.must(jute.OpAuth, packet)
			w.hold()
			c.request(jute.OpSetData, setData("/", ""))
			synctest.Wait()
			w.mu.Lock()
			if len(w.pending) != 2 || jute.Op(w.pending[0].Op) != jute.OpIdentify {
				t.Fatalf("%d transactions wait, want the identity and the write", len(w.pending))
			}
			logged += protobuf.Size(w.pending[0])
			w.mu.Unlock()
			w.release()
			c.expect(c.xid, jute.OK)
		}
		t.Logf("%d bytes of auth packets made %d bytes of log", sent, logged)
		if logged > most*sent {
			t.Errorf("%d bytes of auth packets made %d bytes of log, want at most %d times as many", sent, logged, most)
		}
		k := w.srv.conns.carrierOf(c.id)
		w.state.RLock()
		defer w.state.RUnlock()
		if record, _ := w.state.Session(c.id); record.Identities != znode.IdentitiesOf(k.identity.all()) {
			t.Errorf("the record has %d identities, the connection %d", len(record.Identities.List()), len(k.identity.all()))
		}
	})
}

// A connection names its identities once, when they have changed. Its writes have the same size in the log with 64 identities of
// together 4 KiB as with its address alone.
func TestWritesDoNotNameIdentities(t *testing.T) {
	size := func(identities int) (bytes int) {
		w := newWorld(t, false, nil)
		c := w.connect()
		for i := range identities {
			c.must(jute.OpAuth, auth("digest", fmt.Sprintf("%025d%03d:p", 0, i)))
		}
		c.must(jute.OpSetData, setData("/", "")) // after it the record of the session has the identities
		before := w.countForwarded()
		c.must(jute.OpAuth, auth("ip", "")) // it has this one already
		if n := w.countForwarded() - before; n != 0 {
			t.Errorf("%d transactions for an identity that the connection had", n)
		}
		w.hold()
		c.request(jute.OpSetData, setData("/", strings.Repeat("x", 50)))
		c.expectSilence(10 * time.Millisecond)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.pending) != 1 {
			t.Fatalf("%d transactions wait, want the write", len(w.pending))
		}
		return protobuf.Size(w.pending[0])
	}
	one, many := size(0), size(DefaultMaxIdentities-1)
	t.Logf("a write of 50 bytes takes %d bytes of the log, and %d with 64 identities", one, many)
	if many > one+2 { // the number of the transaction is longer
		t.Errorf("a write takes %d bytes with 64 identities, and %d with one", many, one)
	}
}
