package kerberos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jcmturner/gokrb5/v8/types"
)

// A client logs in with each encryption type, and gets the name of its principal.
func TestLogin(t *testing.T) {
	for _, encryption := range encryptionTypes {
		a := newTestAcceptor(t, nil)
		for client, want := range map[string]string{"bob": "bob@EXAMPLE.COM", "app/host": "app/host@EXAMPLE.COM"} {
			if name, err := logIn(t, a, kdc{id: encryption.id, client: client}.issue(t)); err != nil || name != want {
				t.Errorf("%s, %s: %q, %v", encryption.name, client, name, err)
			}
		}
	}
}

// A client that demands no proof of the server gets the offer at once, with its own sequence number, as Java's client does.
func TestLoginWithoutProof(t *testing.T) {
	a := newTestAcceptor(t, nil)
	for _, withSubkey := range []bool{false, true} {
		var own key
		token, issued := kdc{flags: flagIntegrity, auth: func(auth *types.Authenticator) {
			if withSubkey {
				auth.SubKey = keyOfVersion(17, 9).encoded()
			}
		}}.token(t)
		if own = keyOfVersion(17, 9); !withSubkey {
			own, _ = newKey(issued.SessionKey.KeyType, issued.SessionKey.KeyValue)
		}
		x := a.NewExchange()
		offer, done, err := x.Step(token)
		if err != nil || done {
			t.Fatal(done, err)
		}
		if layers, err := unwrap(own, usageAcceptorWrap, fromAcceptor, 7, offer); err != nil || string(layers) != "\x01\x00\x00\x00" {
			t.Fatalf("offer %x, %v", layers, err)
		}
		choice, err := wrap(own, usageInitiatorWrap, 0, 7, []byte("\x01\x00\x00\x00"))
		if err != nil {
			t.Fatal(err)
		}
		if answer, done, err := x.Step(choice); answer != nil || !done || err != nil || x.UserName() != "bob@EXAMPLE.COM" {
			t.Errorf("%q, %x, %t, %v", x.UserName(), answer, done, err)
		}
		if _, _, err := x.Step(nil); !errors.Is(err, errOver) {
			t.Errorf("a step after the login: %v", err)
		}
	}
}

// Each failure has a fault of its own, with words that name what was wrong.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name string
		kdc  kdc
		want Fault
		text string
	}{
		{"realm", kdc{service: Principal{service.Name, "OTHER.COM"}}, WrongRealm, `the ticket is of the realm "OTHER.COM"; must be of EXAMPLE.COM`},
		{"host", kdc{service: Principal{"zookeeper/alias", "EXAMPLE.COM"}}, WrongService, `the ticket is for "zookeeper/alias"; must be for zookeeper/host.example.com: `},
		{"version", kdc{version: 3}, UnknownKey, "encrypted with version 3 of the key; the keytab has 1: "},
		{"key", kdc{badKey: true}, WrongKey, "the keytab's key of version 1 does not decrypt the ticket"},
		{"expired", kdc{ticket: func(p *encTicketPart) { p.EndTime = time.Now().Add(-6 * time.Minute) }}, Expired, "the ticket has expired 6m0s ago, at "},
		{"early", kdc{ticket: func(p *encTicketPart) { p.StartTime = time.Now().Add(time.Hour) }}, NotYetValid, "in 1h0m0s"},
		{"early, without a start", kdc{ticket: func(p *encTicketPart) { p.StartTime, p.AuthTime = time.Time{}, time.Now().Add(time.Hour) }}, NotYetValid, "in 1h0m0s"},
		{"postdated", kdc{ticket: func(p *encTicketPart) { types.SetFlag(&p.Flags, ticketFlagInvalid) }}, NotYetValid, "postdated"},
		{"clock behind", kdc{auth: func(a *types.Authenticator) { a.CTime = a.CTime.Add(-7 * time.Minute) }}, ClockSkew, "the client's clock is 7m0s behind this one; must be within 5m0s"},
		{"clock ahead", kdc{auth: func(a *types.Authenticator) { a.CTime = a.CTime.Add(7 * time.Minute) }}, ClockSkew, "the client's clock is 7m0s ahead of this one"},
		{"microseconds", kdc{auth: func(a *types.Authenticator) { a.Cusec = 1_000_000 }}, BadToken, "1000000 µs"},
		{"session key of RC4", kdc{ticket: func(p *encTicketPart) { p.Key = types.EncryptionKey{KeyType: 23, KeyValue: make([]byte, 16)} }}, BadEncryption, "the encryption type is rc4-hmac; must be one with AES"},
		{"session key too short", kdc{ticket: func(p *encTicketPart) { p.Key.KeyValue = p.Key.KeyValue[1:] }}, BadEncryption, "a key of 31 bytes for aes256-cts-hmac-sha1-96; must be 32"},
		{"subkey of DES", kdc{auth: func(a *types.Authenticator) { a.SubKey = types.EncryptionKey{KeyType: 1, KeyValue: make([]byte, 8)} }}, BadEncryption, "des-cbc-crc"},
		{"another client", kdc{auth: func(a *types.Authenticator) { a.CName.NameString = []string{"admin"} }}, BadToken, `the authenticator is of "admin@EXAMPLE.COM", and the ticket of "bob@EXAMPLE.COM"`},
		{"another realm of the client", kdc{auth: func(a *types.Authenticator) { a.CRealm = "EVIL.COM" }}, BadToken, `the authenticator is of "bob@EVIL.COM"`},
		{"version of the authenticator", kdc{auth: func(a *types.Authenticator) { a.AVNO = 4 }}, BadToken, "the authenticator has version 4"},
		{"checksum", kdc{auth: func(a *types.Authenticator) { a.Cksum.CksumType = 7 }}, BadToken, "no checksum of GSSAPI: type 0x7"},
		{"short checksum", kdc{auth: func(a *types.Authenticator) { a.Cksum.Checksum = a.Cksum.Checksum[:23] }}, BadToken, "no checksum of GSSAPI: type 0x8003, 23 bytes"},
		{"DCE", kdc{flags: flagDCE}, BadToken, "DCE"},
		{"user to user", kdc{request: func(r *apReq) { types.SetFlag(&r.Options, optionUseSessionKey) }}, BadToken, "user to user"},
		{"no authenticator", kdc{request: func(r *apReq) { r.Authenticator.Cipher = r.Authenticator.Cipher[:27] }}, BadToken, "the encrypted part is too short"},
		{"type of the authenticator", kdc{request: func(r *apReq) { r.Authenticator.EType = 17 }}, BadToken, "the encryption type is aes128-cts-hmac-sha1-96, and that of the key aes256"},
		{"version of the request", kdc{request: func(r *apReq) { r.Version = 4 }}, BadToken, "the request has version 4"},
		{"three parts", kdc{client: "a/b/c"}, NoName, "has 3 parts"},
		{"a slash", kdc{ticket: func(p *encTicketPart) { p.Client.NameString = []string{"a/b"} }, auth: func(a *types.Authenticator) { a.CName.NameString = []string{"a/b"} }}, NoName, "has a part with a slash"},
		{"an at sign", kdc{client: "a@EXAMPLE.COM"}, NoName, "has a part with a slash, an at sign"},
		{"no name", kdc{ticket: func(p *encTicketPart) { p.Client.NameString = []string{""} }, auth: func(a *types.Authenticator) { a.CName.NameString = []string{""} }}, NoName, "has 1 parts"},
		{"a long name", kdc{client: strings.Repeat("x", MaxName)}, NoName, "must be at most 1024"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTestAcceptor(t, nil).NewExchange()
				token, _ := tt.kdc.token(t)
				_, done, err := x.Step(token)
				if err == nil || done || faultOf(t, err) != tt.want || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("%v, want %v: %s", err, tt.want, tt.text)
				}
				if _, _, err := x.Step(token); !errors.Is(err, errOver) {
					t.Errorf("a step after the error: %v", err)
				}
			})
		})
	}
}

// A ticket for a service with a key that is too weak, or of a type that the keytab lacks, is rejected.
func TestTicketTypes(t *testing.T) {
	only := append([]byte{keytabMagic, keytabVersion}, keytabEntryOf(service, 17, 1, 1, keyOfVersion(17, 1).value)...)
	a := newTestAcceptor(t, func(cfg *Config) { cfg.ReadKeytab = func() ([]byte, error) { return only, nil } })
	token, _ := kdc{}.token(t)
	if _, _, err := a.NewExchange().Step(token); err == nil || faultOf(t, err) != UnknownKey || !strings.Contains(err.Error(), "no such key") {
		t.Error(err)
	}
	if _, _, err := a.keyOf(ticket{EncPart: types.EncryptedData{EType: 23}}); err == nil || faultOf(t, err) != BadEncryption {
		t.Error(err)
	}
}

// No token but the right one is taken at each step.
func TestBadTokens(t *testing.T) {
	first, _ := kdc{}.token(t)
	message, err := cutFrame(first, tokenAPReq)
	if err != nil {
		t.Fatal(err)
	}
	framed := func(id uint16, message string) []byte { return appendFramed(nil, id, []byte(message)) }
	for _, tt := range []struct {
		token []byte
		text  string
	}{
		{nil, "the client's first token is not of GSSAPI"},
		{[]byte("n,,"), "the client's first token is not of GSSAPI"},
		{first[:len(first)-1], "has no frame"},
		{append(first[:len(first):len(first)], 0), "has no frame"},
		{[]byte{frameTag}, "has no frame"},
		{[]byte{frameTag, 0x80}, "has no frame"},
		{[]byte{frameTag, 0x84, 0, 0, 0, 0}, "has no frame"},
		{[]byte{frameTag, 0x82, 0}, "has no frame"},
		{[]byte{frameTag, 0}, "not of the mechanism"},
		{[]byte(strings.Replace(string(first), mechanism, strings.Repeat("\x06", len(mechanism)), 1)), "not of the mechanism"},
		{framed(tokenAPRep, "x"), "the type 0x0200; must be 0x0100"},
		{framed(tokenAPReq, "x"), "the request cannot be decoded"},
		{framed(tokenAPReq, ""), "the request cannot be decoded"},
		{framed(tokenAPReq, string(message)+"x"), "the request cannot be decoded: 1 bytes after the message"},
		{make([]byte, MaxToken+1), "a token of 65536 bytes; must be at most 65535"},
	} {
		_, _, err := newTestAcceptor(t, nil).NewExchange().Step(tt.token)
		if err == nil || faultOf(t, err) != BadToken || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%.20x: %v, want %s", tt.token, err, tt.text)
		}
	}
	x := newTestAcceptor(t, nil).NewExchange()
	if _, _, err := x.Step(first); err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.Step([]byte{1}); err == nil || faultOf(t, err) != BadToken || !strings.Contains(err.Error(), "must be empty") {
		t.Error(err)
	}
}

// A client can act only as itself, whatever form of its name it gives.
func TestIdentity(t *testing.T) {
	a := newTestAcceptor(t, func(cfg *Config) { cfg.Names.RemoveHost = true })
	for wanted, ok := range map[string]bool{
		"": true, "app/host@EXAMPLE.COM": true, "app/host": true, "app": true, "app@EXAMPLE.COM": true,
		"admin": false, "app@OTHER.COM": false, "ap": false, "app/host@EXAMPLE.COM\x00": false,
	} {
		token, issued := kdc{client: "app/host", flags: flagIntegrity}.token(t)
		x := a.NewExchange()
		if _, _, err := x.Step(token); err != nil {
			t.Fatal(err)
		}
		session, _ := newKey(issued.SessionKey.KeyType, issued.SessionKey.KeyValue)
		choice, err := wrap(session, usageInitiatorWrap, 0, 7, append([]byte{layerNone, 0, 0, 0}, wanted...))
		if err != nil {
			t.Fatal(err)
		}
		_, done, err := x.Step(choice)
		switch {
		case ok && (err != nil || !done || x.UserName() != "app@EXAMPLE.COM"):
			t.Errorf("%q: %q, %v", wanted, x.UserName(), err)
		case !ok && (err == nil || done || x.UserName() != "" || faultOf(t, err) != WrongIdentity || !strings.Contains(err.Error(), "tries to act as")):
			t.Errorf("%q: %q, %v", wanted, x.UserName(), err)
		}
	}
}

// Each byte of the client's choice counts: it is signed, and has one sequence number, one direction and one layer. A
// rotated one is the same.
func TestChoice(t *testing.T) {
	a := newTestAcceptor(t, nil)
	step := func(change func(choice []byte, session key) []byte) error {
		token, issued := kdc{flags: flagIntegrity}.token(t)
		x := a.NewExchange()
		if _, _, err := x.Step(token); err != nil {
			t.Fatal(err)
		}
		session, _ := newKey(issued.SessionKey.KeyType, issued.SessionKey.KeyValue)
		choice, err := wrap(session, usageInitiatorWrap, 0, 7, []byte{layerNone, 0, 0, 0})
		if err != nil {
			t.Fatal(err)
		}
		_, done, err := x.Step(change(choice, session))
		if done != (err == nil) || (x.UserName() != "") != done {
			t.Errorf("%t, %v", done, err)
		}
		return err
	}
	size := wrapHeader + choiceSize + 12
	for i := range size {
		if i == 6 || i == 7 { // the rotation is below
			continue
		}
		for _, bit := range []byte{1, 0x80} {
			err := step(func(choice []byte, _ key) []byte { choice[i] ^= bit; return choice })
			if err == nil || faultOf(t, err) != BadToken {
				t.Errorf("byte %d: %v", i, err)
			}
		}
		if err := step(func(choice []byte, _ key) []byte { return choice[:i] }); err == nil {
			t.Errorf("%d bytes are taken", i)
		}
	}
	if err := step(func(choice []byte, _ key) []byte { choice[2] |= isSealed; return choice }); err == nil ||
		!strings.Contains(err.Error(), "is encrypted") {
		t.Errorf("an encrypted one: %v", err)
	}
	for rotation := range uint16(40) {
		err := step(func(choice []byte, _ key) []byte {
			body := choice[wrapHeader:]
			n := int(rotation) % len(body)
			rotated := append(append([]byte{}, body[len(body)-n:]...), body[:len(body)-n]...)
			binary.BigEndian.PutUint16(choice[6:], rotation)
			return append(choice[:wrapHeader:wrapHeader], rotated...)
		})
		if err != nil {
			t.Errorf("rotated by %d: %v", rotation, err)
		}
	}
	for _, payload := range []string{"", "\x01\x00\x00", "\x02\x00\x00\x00", "\x04\x00\x10\x00", "\x03\x00\x00\x00", "\x00\x00\x00\x00"} {
		err := step(func(_ []byte, session key) []byte {
			choice, _ := wrap(session, usageInitiatorWrap, 0, 7, []byte(payload))
			return choice
		})
		if err == nil || !strings.Contains(err.Error(), "security layer") {
			t.Errorf("%x: %v", payload, err)
		}
	}
}

// A token that demands no proof is accepted once, by all exchanges of an acceptor, as long as its time is within the skew.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const skew = time.Minute
		a := newTestAcceptor(t, func(cfg *Config) { cfg.ClockSkew = skew })
		// The client's clock is ahead, so that its token is accepted for twice the skew.
		token, _ := kdc{flags: flagIntegrity, auth: func(auth *types.Authenticator) { auth.CTime, auth.Cusec = auth.CTime.Add(skew), 0 }}.token(t)
		time.Sleep(time.Second)
		if _, _, err := a.NewExchange().Step(token); err != nil {
			t.Fatal(err)
		}
		for since := time.Second; since <= 2*skew; since += skew / 4 {
			if _, _, err := a.NewExchange().Step(token); err == nil || faultOf(t, err) != Replayed {
				t.Errorf("after %v: %v", since, err)
			}
			time.Sleep(skew / 4)
		}
		if _, _, err := a.NewExchange().Step(token); err == nil || faultOf(t, err) != ClockSkew {
			t.Errorf("after twice the skew: %v", err)
		}
		other, _ := kdc{flags: flagIntegrity}.token(t)
		if _, _, err := a.NewExchange().Step(other); err != nil {
			t.Error(err)
		}
	})
}

// A recorded login that demanded a proof blocks no other client. The proof has another subkey each time, so the recorded
// tokens that follow are worthless. Neither login takes room in the cache.
func TestReplayWithProof(t *testing.T) {
	a := newTestAcceptor(t, nil)
	client, err := NewLogin(kdc{}.issue(t))
	if err != nil {
		t.Fatal(err)
	}
	x := a.NewExchange()
	var recorded [][]byte
	var answer []byte
	for {
		token, done, err := client.Step(answer)
		if err != nil {
			t.Fatal(err)
		}
		if done {
			break
		}
		recorded = append(recorded, token)
		if answer, _, err = x.Step(token); err != nil {
			t.Fatal(err)
		}
	}
	again := a.NewExchange()
	for i, token := range recorded {
		_, done, err := again.Step(token)
		switch last := i == len(recorded)-1; {
		case done || last && (err == nil || faultOf(t, err) != BadToken):
			t.Errorf("token %d of a recorded login: %t, %v", i, done, err)
		case !last && err != nil:
			t.Errorf("token %d: %v", i, err)
		}
	}
	if again.UserName() != "" || len(recorded) != 3 || len(a.replay.now.seen) != 0 {
		t.Errorf("%q has logged in with %d recorded tokens; %d are remembered", again.UserName(), len(recorded), len(a.replay.now.seen))
	}
}

// The cache forgets what is too old to be accepted, and rejects what it could not remember. One principal has a share of it.
func TestReplayCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const skew = time.Minute
		c := newReplayCache(skew)
		for i := range maxRemembered {
			if err := c.add(fmt.Sprint("user ", i/maxOfPrincipal), binary.BigEndian.AppendUint64(nil, uint64(i)), time.Now()); err != nil {
				t.Fatal(i, err)
			}
			if i != maxOfPrincipal {
				continue
			}
			if err := c.add("user 0", []byte("one more"), time.Now()); err == nil || faultOf(t, err) != TooManyLogins ||
				!strings.Contains(err.Error(), `"user 0" has logged in 32768 times`) {
				t.Errorf("one more of the first principal: %v", err)
			}
		}
		if err := c.add("bob", []byte("one more"), time.Now()); err == nil || faultOf(t, err) != TooManyLogins ||
			!strings.Contains(err.Error(), "262144 clients have logged in") {
			t.Errorf("one more: %v", err)
		}
		if err := c.add("bob", make([]byte, 8), time.Now()); err == nil || faultOf(t, err) != Replayed {
			t.Errorf("a known one: %v", err)
		}
		time.Sleep(2 * skew)
		if err := c.add("bob", make([]byte, 8), time.Now()); err == nil || faultOf(t, err) != Replayed {
			t.Errorf("a known one of the last generation: %v", err)
		}
		if err := c.add("user 0", []byte("one more"), time.Now()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * skew)
		if err := c.add("bob", make([]byte, 8), time.Now()); err != nil || len(c.last.seen) != 1 {
			t.Errorf("a forgotten one: %v, %d in the last generation", err, len(c.last.seen))
		}
		time.Sleep(4 * skew)
		if err := c.add("bob", []byte("one more"), time.Now()); err != nil || len(c.last.seen) != 0 {
			t.Errorf("after both generations: %v, %d in the last one", err, len(c.last.seen))
		}
	})
}

// A keytab that was replaced is used by the next login, whether or not it keeps the keys before it. A broken one changes nothing, and is
// reported once.
func TestKeytabIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content, failure, reads := keytabOf(1), error(nil), 0
		var reported []string
		a := newTestAcceptor(t, func(cfg *Config) {
			cfg.ReadKeytab = func() ([]byte, error) { reads++; return content, failure }
			cfg.Log = func(err error) { reported = append(reported, fmt.Sprint(err)) }
		})
		try := func(version uint32, want error) {
			t.Helper()
			if _, err := logIn(t, a, kdc{version: version}.issue(t)); fmt.Sprint(err) != fmt.Sprint(want) && (want == nil || err == nil) {
				t.Errorf("version %d: %v, want %v", version, err, want)
			}
		}
		some := errors.New("some")
		try(1, nil)
		content = keytabOf(1, 2)
		try(2, nil) // waits for the keytab, which was read a moment ago
		try(1, nil)
		content = keytabOf(2, 3)
		time.Sleep(keytabInterval)
		try(1, some)
		try(3, nil)
		for _, broken := range []func(){
			func() { content = []byte("broken") }, func() { failure = errors.New("no such file") }, func() { content, failure = []byte{5, 2}, nil },
		} {
			broken()
			time.Sleep(keytabInterval)
			try(3, nil)
			time.Sleep(keytabInterval)
			try(2, nil)
		}
		content = keytabOf(4)
		time.Sleep(keytabInterval)
		try(4, nil)
		want := []string{"<nil>", "<nil>", errKeytab.Error(), "no such file", "the keytab has no key of " + service.String() + ", and none with AES of any other principal", "<nil>"}
		if fmt.Sprint(reported) != fmt.Sprint(want) {
			t.Errorf("reported %q, want %q", reported, want)
		}
		before := reads
		for range 100 {
			try(4, nil)
		}
		if reads > before+1 {
			t.Errorf("%d reads for 100 logins at once", reads-before)
		}
	})
}

// Many clients with an unknown version wait for one read, not for one after the other.
func TestUnknownVersionsWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		a := newTestAcceptor(t, func(cfg *Config) {
			cfg.ReadKeytab = func() ([]byte, error) { reads++; return keytabOf(1), nil }
		})
		began := time.Now()
		for range 50 {
			go func() {
				token, _ := kdc{version: 9}.token(t)
				if _, _, err := a.NewExchange().Step(token); err == nil || faultOf(t, err) != UnknownKey {
					t.Error(err)
				}
			}()
		}
		time.Sleep(2 * keytabInterval)
		synctest.Wait()
		if reads > 3 || time.Since(began) > 2*keytabInterval {
			t.Errorf("%d reads in %v", reads, time.Since(began))
		}
	})
}

// A client notices a server without the service's key, and one that replays the proof of another login.
func TestServerIsProved(t *testing.T) {
	issued := kdc{}.issue(t)
	proofOf := func() []byte {
		client, _ := NewLogin(issued)
		token, _, err := client.Step(nil)
		if err != nil {
			t.Fatal(err)
		}
		proof, _, err := newTestAcceptor(t, nil).NewExchange().Step(token)
		if err != nil {
			t.Fatal(err)
		}
		return proof
	}
	proof := proofOf()
	broken := append([]byte{}, proof...)
	broken[len(broken)-1] ^= 1
	for begun := time.Now().UnixMicro(); time.Now().UnixMicro() == begun; { // a proof names its microsecond
	}
	for what, answer := range map[string][]byte{
		"of another login": proof, "cannot be decoded": appendFramed(nil, tokenAPRep, []byte("x")), "no frame": nil,
		"does not prove": broken, "the type 0x0300; must be 0x0200": appendFramed(nil, tokenError, nil),
	} {
		client, _ := NewLogin(issued)
		if _, _, err := client.Step(nil); err != nil {
			t.Fatal(err)
		}
		if _, done, err := client.Step(answer); err == nil || done || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %t, %v", what, done, err)
		}
		if _, _, err := client.Step(proof); !errors.Is(err, errOver) {
			t.Errorf("a step after the error: %v", err)
		}
	}
}

// A client whose ticket has a key of another kind does not begin.
func TestLoginNeedsAES(t *testing.T) {
	if _, err := NewLogin(Ticket{SessionKey: types.EncryptionKey{KeyType: 23, KeyValue: make([]byte, 16)}}); err == nil ||
		faultOf(t, err) != BadEncryption {
		t.Error(err)
	}
}
