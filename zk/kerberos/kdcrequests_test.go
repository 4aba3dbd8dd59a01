package kerberos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

var granter = Principal{"krbtgt/EXAMPLE.COM", "EXAMPLE.COM"}

// kdcReply makes the replies of a KDC. change may change the encrypted part.
type kdcReply struct {
	t      testing.TB
	change func(*messages.EncKDCRepPart)
	client Principal // zero: service
	badKey bool
}

// fields returns a reply for service, which is the client, with a ticket for of.
func (r kdcReply) fields(of Principal, nonce, kind int, k key, usage uint32) (messages.KDCRepFields, types.EncryptionKey) {
	r.t.Helper()
	client := r.client
	if client == (Principal{}) {
		client = service
	}
	issued := kdc{service: of, client: client.Name}.issue(r.t)
	now := time.Now().UTC().Truncate(time.Second)
	part := messages.EncKDCRepPart{
		Key: issued.SessionKey, Nonce: nonce, Flags: types.NewKrbFlags(), AuthTime: now, EndTime: now.Add(10 * time.Hour),
		SRealm: of.Realm, SName: principalName(of, nameOfInstance), LastReqs: []messages.LastReq{{LRType: 0, LRValue: now}},
	}
	if r.change != nil {
		r.change(&part)
	}
	text, err := part.Marshal()
	if err != nil {
		r.t.Fatal(err)
	}
	if r.badKey {
		k = k.newRandomKey()
	}
	sealed, err := k.encrypt(text, usage, 1)
	if err != nil {
		r.t.Fatal(err)
	}
	var t messages.Ticket
	if err := t.Unmarshal(issued.Encoded); err != nil {
		r.t.Fatal(err)
	}
	return messages.KDCRepFields{
		PVNO: protocolVersion, MsgType: kind, CRealm: client.Realm, CName: principalName(client, nameOfPrincipal), Ticket: t, EncPart: sealed,
	}, issued.SessionKey
}

// initial returns the reply to a request for a ticket of the KDC. It checks what the client proves.
func (r kdcReply) initial(message []byte) []byte {
	r.t.Helper()
	var sent messages.ASReq
	if err := sent.Unmarshal(message); err != nil {
		r.t.Fatal(err)
	}
	var sealed types.EncryptedData
	if err := sealed.Unmarshal(sent.PAData[0].PADataValue); err != nil {
		r.t.Fatal(err)
	}
	if _, err := keyOfVersion(18, 1).decrypt(sealed, usageTimestamp); err != nil || sealed.KVNO != 1 {
		r.t.Errorf("the client does not prove its key: %v, version %d", err, sealed.KVNO)
	}
	fields, _ := r.fields(granter, sent.ReqBody.Nonce, 11, keyOfVersion(18, 1), usageInitialReply)
	reply, err := (&messages.ASRep{KDCRepFields: fields}).Marshal()
	if err != nil {
		r.t.Fatal(err)
	}
	return reply
}

// grant returns the reply to a request for a ticket for a service.
func (r kdcReply) grant(g *Granter, of Principal, message []byte) []byte {
	r.t.Helper()
	var sent messages.TGSReq
	if err := sent.Unmarshal(message); err != nil {
		r.t.Fatal(err)
	}
	session, err := newKey(g.session.KeyType, g.session.KeyValue)
	if err != nil {
		r.t.Fatal(err)
	}
	fields, _ := r.fields(of, sent.ReqBody.Nonce, 13, session, usageServiceReply)
	reply, err := (&messages.TGSRep{KDCRepFields: fields}).Marshal()
	if err != nil {
		r.t.Fatal(err)
	}
	return reply
}

func errorReply(t testing.TB, code int32) []byte {
	t.Helper()
	e := messages.NewKRBError(principalName(granter, nameOfInstance), "EXAMPLE.COM", code, "text of the KDC")
	reply, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func testKeytab(t testing.TB) *Keytab {
	t.Helper()
	keys, err := ParseKeytab(keytabOf(1))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// takeGranter gets a granter.
func takeGranter(t testing.TB) *Granter {
	t.Helper()
	r, err := NewInitialRequest(testKeytab(t), service)
	if err != nil {
		t.Fatal(err)
	}
	g, err := r.Take(kdcReply{t: t}.initial(r.Message))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A service gets a ticket for another one, with which that one accepts it as a peer.
func TestServiceTickets(t *testing.T) {
	g := takeGranter(t)
	r, err := g.NewServiceRequest(service) // itself: the tests have no other service's key
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Take(kdcReply{t: t}.grant(g, service, r.Message))
	if err != nil {
		t.Fatal(err)
	}
	if got.Service != service || time.Until(got.Ends) < 9*time.Hour || time.Until(got.Ends) > 10*time.Hour ||
		time.Since(got.Begin) > time.Minute {
		t.Errorf("a ticket for %v from %v to %v", got.Service, got.Begin, got.Ends)
	}
	peer, token, err := NewPeerRequest(got.Ticket)
	if err != nil {
		t.Fatal(err)
	}
	reply, name, dialed, err := newTestAcceptor(t, nil).AcceptPeer(token)
	if err != nil {
		t.Fatal(err)
	}
	if dialer, err := peer.TakeReply(reply); err != nil || dialer != dialed || name != service {
		t.Errorf("%v, %v", name, err)
	}
	if _, err := g.NewServiceRequest(Principal{service.Name, "OTHER.COM"}); err == nil || faultOf(t, err) != WrongRealm {
		t.Errorf("a service of another realm: %v", err)
	}
	if _, err := NewInitialRequest(testKeytab(t), Principal{"zookeeper/other", "EXAMPLE.COM"}); err == nil ||
		!strings.Contains(err.Error(), "the keytab has no key of zookeeper/other@EXAMPLE.COM") {
		t.Errorf("a client without a key: %v", err)
	}
}

// A key of the client's newest version proves it, also if only older versions have the preferred type.
func TestNewestKey(t *testing.T) {
	newest := keytabEntryOf(service, 20, 9, 9, keyOfVersion(20, 9).value)
	for want, content := range map[string][]byte{
		"18 7": keytabOf(3, 7, 5), "20 9": slices.Concat(keytabOf(3), newest, keytabOf(7)[2:]), "18 1": keytabOf(1, 1),
	} {
		keys, err := ParseKeytab(content)
		if err != nil {
			t.Fatal(err)
		}
		k, version := keys.newestKey(service)
		if got := fmt.Sprint(k.id, version); got != want || string(k.value) != string(keyOfVersion(k.id, version).value) {
			t.Errorf("type and version %s, want %s", got, want)
		}
	}
}

// Each error of the KDC, and each reply that is wrong, has a fault of its own.
func TestKDCErrors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply func(t *testing.T, message []byte) []byte
		want  Fault
		text  string
	}{
		{"client", func(t *testing.T, _ []byte) []byte { return errorReply(t, 6) }, NoName, "the KDC has no principal zookeeper/host.example.com@EXAMPLE.COM"},
		{"service", func(t *testing.T, _ []byte) []byte { return errorReply(t, 7) }, WrongService, "the KDC has no principal krbtgt/EXAMPLE.COM@EXAMPLE.COM"},
		{"encryption", func(t *testing.T, _ []byte) []byte { return errorReply(t, 14) }, BadEncryption, "no key with AES"},
		{"locked", func(t *testing.T, _ []byte) []byte { return errorReply(t, 18) }, WrongIdentity, "locked"},
		{"old key", func(t *testing.T, _ []byte) []byte { return errorReply(t, 23) }, Expired, "set an end to the key"},
		{"key", func(t *testing.T, _ []byte) []byte { return errorReply(t, 24) }, WrongKey, "another key of zookeeper/host.example.com@EXAMPLE.COM than the keytab"},
		{"clock", func(t *testing.T, _ []byte) []byte { return errorReply(t, 37) }, ClockSkew, "the KDC's clock is at 2"},
		{"other", func(t *testing.T, _ []byte) []byte { return errorReply(t, 60) }, BadToken, "text of the KDC"},
		{"cut error", func(t *testing.T, _ []byte) []byte { return errorReply(t, 60)[:9] }, BadToken, "the KDC's error cannot be decoded"},
		{"nothing", func(*testing.T, []byte) []byte { return nil }, BadToken, "cannot be decoded"},
		{"another key", func(t *testing.T, m []byte) []byte { return kdcReply{t: t, badKey: true}.initial(m) }, WrongKey, "does not decrypt the KDC's reply"},
		{"another client", func(t *testing.T, m []byte) []byte {
			return kdcReply{t: t, client: Principal{"bob", "EXAMPLE.COM"}}.initial(m)
		}, WrongIdentity, `is for "bob@EXAMPLE.COM"`},
		{"another request", func(t *testing.T, m []byte) []byte {
			return kdcReply{t: t, change: func(p *messages.EncKDCRepPart) { p.Nonce++ }}.initial(m)
		}, BadToken, "is to another request"},
		{"session key", func(t *testing.T, m []byte) []byte {
			return kdcReply{t: t, change: func(p *messages.EncKDCRepPart) { p.Key.KeyType = 23 }}.initial(m)
		}, BadEncryption, "rc4-hmac"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := NewInitialRequest(testKeytab(t), service)
				if err != nil {
					t.Fatal(err)
				}
				if g, err := r.Take(tt.reply(t, r.Message)); err == nil || g != nil || faultOf(t, err) != tt.want ||
					!strings.Contains(err.Error(), tt.text) {
					t.Errorf("%v, want %v: %s", err, tt.want, tt.text)
				}
			})
		})
	}
	g := takeGranter(t)
	for text, r := range map[string]kdcReply{
		"is to another request":                            {t: t, change: func(p *messages.EncKDCRepPart) { p.Nonce++ }},
		"cannot be decrypted":                              {t: t, badKey: true},
		`is for "a/b@EXAMPLE.COM"; must be for zookeeper/`: {t: t, change: func(p *messages.EncKDCRepPart) { p.SName.NameString = []string{"a", "b"} }},
	} {
		request, err := g.NewServiceRequest(service)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := request.Take(r.grant(g, service, request.Message)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
}

// No reply of a KDC makes a panic, and none but its own is taken.
func FuzzKDCReply(f *testing.F) {
	r, err := NewInitialRequest(testKeytab(f), service)
	if err != nil {
		f.Fatal(err)
	}
	initial := kdcReply{t: f}.initial(r.Message)
	g, err := r.Take(initial)
	if err != nil {
		f.Fatal(err)
	}
	of, err := g.NewServiceRequest(service)
	if err != nil {
		f.Fatal(err)
	}
	granted := kdcReply{t: f}.grant(g, service, of.Message)
	for _, seed := range [][]byte{initial, granted, errorReply(f, 25)} {
		f.Add(seed)
		f.Add(seed[:len(seed)/2])
	}
	f.Fuzz(func(tb *testing.T, data []byte) {
		if len(data) > MaxToken {
			return
		}
		var errInitial, errGranted error
		if used := allocated(func() {
			_, errInitial = r.Take(data)
			_, errGranted = of.Take(data)
		}); used > 4<<20 {
			tb.Errorf("%d bytes for %d", used, len(data))
		}
		for _, err := range []error{errInitial, errGranted} {
			if err != nil && strings.Contains(err.Error(), "runtime error") {
				tb.Errorf("a panic of the library: %v", err)
			}
		}
	})
}
