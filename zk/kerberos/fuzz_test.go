package kerberos

import (
	"runtime"
	"strings"
	"testing"

	"github.com/jcmturner/gokrb5/v8/types"
)

// The parts of a request that FuzzExchange replaces.
const (
	fuzzToken         = iota // the first token
	fuzzMessage              // the message in its frame
	fuzzTicket               // the ticket in the message
	fuzzTicketCipher         // the encrypted part of the ticket
	fuzzTicketPart           // what is encrypted there, of a KDC that is broken
	fuzzAuthenticator        // what a client has encrypted
	fuzzChoice               // the client's last token
	numFuzzParts
)

// No client, and no client with a ticket, makes an exchange panic, take much memory, or log in as another.
func FuzzExchange(f *testing.F) {
	token, issued := kdc{}.token(f)
	message, err := cutFrame(token, tokenAPReq)
	if err != nil {
		f.Fatal(err)
	}
	request, t, err := parseAPReq(message)
	if err != nil {
		f.Fatal(err)
	}
	session, _ := newKey(issued.SessionKey.KeyType, issued.SessionKey.KeyValue)
	part, err := keyOfVersion(18, 1).decrypt(t.EncPart, usageTicket)
	if err != nil {
		f.Fatal(err)
	}
	auth, err := session.decrypt(request.Authenticator, usageAuthenticator)
	if err != nil {
		f.Fatal(err)
	}
	choice, _ := wrap(session, usageInitiatorWrap, 0, 7, []byte{layerNone, 0, 0, 0})
	for which, seed := range [numFuzzParts][]byte{token, message, request.Ticket.Bytes, t.EncPart.Cipher, part, auth, choice} {
		f.Add(which, seed)
		f.Add(which, []byte{})
		f.Add(which, seed[:len(seed)/2])
	}
	f.Fuzz(func(tb *testing.T, which int, data []byte) {
		if len(data) > MaxToken {
			return
		}
		a := newTestAcceptor(tb, nil)
		x := a.NewExchange()
		var name string
		var err error
		if used := allocated(func() { name, err = fuzzStep(tb, x, which, data) }); used > 4<<20 {
			tb.Errorf("%d bytes for %d", used, len(data))
		}
		if err != nil && strings.Contains(err.Error(), "runtime error") {
			tb.Errorf("a panic of the library: %v", err)
		}
		if err == nil && name != "bob@EXAMPLE.COM" && which != fuzzTicketPart {
			tb.Errorf("%q has logged in", name)
		}
	})
}

// allocated returns the bytes that try has allocated.
func allocated(try func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	try()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// fuzzStep runs an exchange with data in place of a part, and returns the name of a client that has logged in.
func fuzzStep(tb testing.TB, x *Exchange, which int, data []byte) (string, error) {
	tb.Helper()
	change := kdc{flags: flagIntegrity}
	switch which {
	case fuzzTicket:
		change.request = func(r *apReq) { r.Ticket.Bytes = data }
	case fuzzTicketCipher, fuzzTicketPart:
		sealed := types.EncryptedData{EType: 18, KVNO: 1, Cipher: data}
		if which == fuzzTicketPart {
			var err error
			if sealed, err = keyOfVersion(18, 1).encrypt(data, usageTicket, 1); err != nil {
				tb.Fatal(err)
			}
		}
		encoded, err := marshal(ticket{
			Version: protocolVersion, Realm: service.Realm, EncPart: sealed,
			Service: types.PrincipalName{NameType: 2, NameString: []string{"zookeeper", "host.example.com"}},
		}, tagTicket)
		if err != nil {
			tb.Fatal(err)
		}
		change.request = func(r *apReq) { r.Ticket.Bytes = encoded }
	}
	token, issued := change.token(tb)
	session, _ := newKey(issued.SessionKey.KeyType, issued.SessionKey.KeyValue)
	switch which {
	case fuzzToken:
		token = data
	case fuzzMessage:
		token = appendFramed(nil, tokenAPReq, data)
	case fuzzAuthenticator:
		sealed, err := session.encrypt(data, usageAuthenticator, 0)
		if err != nil {
			tb.Fatal(err)
		}
		message, _ := cutFrame(token, tokenAPReq)
		request, _, err := parseAPReq(message)
		if err != nil {
			tb.Fatal(err)
		}
		request.Authenticator = sealed
		if message, err = marshal(request, tagAPReq); err != nil {
			tb.Fatal(err)
		}
		token = appendFramed(nil, tokenAPReq, message)
	}
	if _, _, err := x.Step(token); err != nil {
		return "", err
	}
	last := data
	if which != fuzzChoice {
		last, _ = wrap(session, usageInitiatorWrap, 0, 7, []byte{layerNone, 0, 0, 0})
	}
	_, _, err := x.Step(last)
	return x.UserName(), err
}
