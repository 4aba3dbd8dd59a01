package kerberos

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jcmturner/gokrb5/v8/types"
)

// Both ends get the same key, another one for each connection, and the dialed side learns the principal of the dialer.
func TestPeers(t *testing.T) {
	seen := map[PeerKey]bool{}
	for _, encryption := range encryptionTypes {
		a := newTestAcceptor(t, nil)
		issued := kdc{id: encryption.id, client: "zookeeper/other.example.com"}.issue(t)
		for range 2 {
			r, token, err := NewPeerRequest(issued)
			if err != nil {
				t.Fatal(err)
			}
			reply, peer, dialed, err := a.AcceptPeer(token)
			if err != nil {
				t.Fatal(err)
			}
			dialer, err := r.TakeReply(reply)
			if err != nil || dialer != dialed || seen[dialed] || dialed == (PeerKey{}) {
				t.Errorf("%s: keys of %x and %x, %v", encryption.name, dialer[:4], dialed[:4], err)
			}
			seen[dialed] = true
			if want := (Principal{"zookeeper/other.example.com", "EXAMPLE.COM"}); peer != want {
				t.Errorf("the peer is %v, want %v", peer, want)
			}
			if text := fmt.Sprintf("%v %#v", dialed, dialed); strings.ContainsAny(text, "{0x") {
				t.Errorf("printed %s", text)
			}
		}
	}
}

// A request that is sent again gets a reply with another subkey, so the sender of a recorded one has not the key of the connection.
func TestPeerRequestSentAgain(t *testing.T) {
	a := newTestAcceptor(t, nil)
	r, token, err := NewPeerRequest(kdc{}.issue(t))
	if err != nil {
		t.Fatal(err)
	}
	reply, _, first, err := a.AcceptPeer(token)
	if err != nil {
		t.Fatal(err)
	}
	_, _, second, err := a.AcceptPeer(token)
	if err != nil || first == second {
		t.Errorf("the second key is the first one: %t, %v", first == second, err)
	}
	if got, err := r.TakeReply(reply); err != nil || got == second {
		t.Errorf("the first reply has the key of the second one: %t, %v", got == second, err)
	}
}

// Requests of others, and those that lack a part, are rejected.
func TestPeerFaults(t *testing.T) {
	subkey := func(a *types.Authenticator) { a.SubKey = keyOfVersion(18, 9).encoded() }
	for _, tt := range []struct {
		name string
		kdc  kdc
		want Fault
		text string
	}{
		{"realm", kdc{service: Principal{service.Name, "OTHER.COM"}}, WrongRealm, "OTHER.COM"},
		{"host", kdc{service: Principal{"zookeeper/alias", "EXAMPLE.COM"}}, WrongService, "zookeeper/alias"},
		{"key", kdc{badKey: true}, WrongKey, "does not decrypt"},
		{"expired", kdc{ticket: func(p *encTicketPart) { p.EndTime = time.Now().Add(-6 * time.Minute) }}, Expired, "expired 6m0s ago"},
		{"clock", kdc{auth: func(a *types.Authenticator) { a.CTime = a.CTime.Add(-7 * time.Minute) }}, ClockSkew, "7m0s behind"},
		{"no subkey", kdc{}, BadToken, "has no subkey"},
		{"no reply wanted", kdc{flags: flagIntegrity, auth: subkey}, BadToken, "demands no reply"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				token, _ := tt.kdc.token(t)
				reply, _, key, err := newTestAcceptor(t, nil).AcceptPeer(token)
				if err == nil || reply != nil || key != (PeerKey{}) || faultOf(t, err) != tt.want || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("%v, want %v: %s", err, tt.want, tt.text)
				}
			})
		})
	}
	for _, token := range [][]byte{nil, {frameTag}, make([]byte, MaxToken+1), appendFramed(nil, tokenAPRep, nil)} {
		if _, _, _, err := newTestAcceptor(t, nil).AcceptPeer(token); err == nil || faultOf(t, err) != BadToken {
			t.Errorf("a token of %d bytes: %v", len(token), err)
		}
	}
}

// A reply counts only if it proves the service's key for this request, and has a subkey.
func TestPeerReplies(t *testing.T) {
	synctest.Test(t, testPeerReplies) // so that two requests have two times
}

func testPeerReplies(t *testing.T) {
	a := newTestAcceptor(t, nil)
	issued := kdc{}.issue(t)
	session, _ := newKey(issued.SessionKey.KeyType, issued.SessionKey.KeyValue)
	seal := func(k key, part encAPRepPart) []byte {
		text, err := marshal(part, tagEncAPRep)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := k.encrypt(text, usageAPRep, 0)
		if err != nil {
			t.Fatal(err)
		}
		message, err := marshal(apRep{Version: protocolVersion, Type: tagAPRep, EncPart: sealed}, tagAPRep)
		if err != nil {
			t.Fatal(err)
		}
		return appendFramed(nil, tokenAPRep, message)
	}
	for name, tt := range map[string]struct {
		reply func(sent types.Authenticator) []byte
		text  string
	}{
		"another request": {func(types.Authenticator) []byte {
			_, token, err := NewPeerRequest(issued)
			if err != nil {
				t.Fatal(err)
			}
			reply, _, _, err := a.AcceptPeer(token)
			if err != nil {
				t.Fatal(err)
			}
			return reply
		}, "the server's proof is of another login"},
		"another key": {func(sent types.Authenticator) []byte {
			return seal(session.newRandomKey(), encAPRepPart{Time: sent.CTime, Micros: sent.Cusec, Subkey: session.newRandomKey().encoded()})
		}, "does not prove that it has the service's key"},
		"no subkey": {func(sent types.Authenticator) []byte {
			return seal(session, encAPRepPart{Time: sent.CTime, Micros: sent.Cusec})
		}, "the reply has no subkey"},
		"the request": {func(types.Authenticator) []byte { return appendFramed(nil, tokenAPReq, nil) }, "must be 0x0200"},
		"too long":    {func(types.Authenticator) []byte { return make([]byte, MaxToken+1) }, "must be at most 65535"},
	} {
		r, _, err := NewPeerRequest(issued)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Microsecond) // the time of a request names it, in microseconds
		if key, err := r.TakeReply(tt.reply(r.login.sent)); err == nil || key != (PeerKey{}) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %s", name, err, tt.text)
		}
	}
}

// No reply, and no request, makes a peer panic, and none gets a key.
func FuzzPeer(f *testing.F) {
	r, token, err := NewPeerRequest(kdc{}.issue(f))
	if err != nil {
		f.Fatal(err)
	}
	reply, _, _, err := newTestAcceptor(f, nil).AcceptPeer(token)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token)
	f.Add(reply)
	f.Add(reply[:len(reply)/2])
	f.Fuzz(func(tb *testing.T, data []byte) {
		a := newTestAcceptor(tb, nil)
		var errIn, errOut error
		if used := allocated(func() {
			_, _, _, errIn = a.AcceptPeer(data)
			_, errOut = r.TakeReply(data)
		}); used > 4<<20 {
			tb.Errorf("%d bytes for %d", used, len(data))
		}
		for _, err := range []error{errIn, errOut} {
			if err != nil && strings.Contains(err.Error(), "runtime error") {
				tb.Errorf("a panic of the library: %v", err)
			}
		}
	})
}
