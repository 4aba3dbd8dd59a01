package kerberos

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/types"
)

var service = Principal{"zookeeper/host.example.com", "EXAMPLE.COM"}

// keyOfVersion returns the service's key of a version.
func keyOfVersion(id int32, version uint32) key {
	t, err := lookupType(id)
	if err != nil {
		panic(err)
	}
	value := make([]byte, t.keySize)
	for i := range value {
		value[i] = byte(i) ^ byte(id)<<3 ^ byte(version)
	}
	return key{t, value}
}

// keytabEntryOf returns an entry of a keytab with its length. A version of 0 in long leaves the long version out.
func keytabEntryOf(of Principal, id int32, short byte, long uint32, value []byte) []byte {
	counted := func(b []byte, text string) []byte {
		return append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
	}
	parts := strings.Split(of.Name, "/")
	b := binary.BigEndian.AppendUint16(nil, uint16(len(parts)))
	b = counted(b, of.Realm)
	for _, part := range parts {
		b = counted(b, part)
	}
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, 1_700_000_000)
	b = append(b, short)
	b = binary.BigEndian.AppendUint16(b, uint16(id))
	b = counted(b, string(value))
	if long != 0 {
		b = binary.BigEndian.AppendUint32(b, long)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// keytabOf returns a keytab with keys of all served types, of the service and these versions.
func keytabOf(versions ...uint32) []byte {
	b := []byte{keytabMagic, keytabVersion}
	for _, version := range versions {
		for _, t := range encryptionTypes {
			b = append(b, keytabEntryOf(service, t.id, byte(version), version, keyOfVersion(t.id, version).value)...)
		}
	}
	return b
}

// kdc makes tickets and requests for tests. Its zero value makes right ones.
type kdc struct {
	service Principal // zero: that of the tests
	id      int32     // of the service's key and of the session key; 0: 18
	version uint32    // of the service's key; 0: 1
	badKey  bool      // the ticket is encrypted with a key that is in no keytab
	client  string    // with slashes; "": bob
	realm   string    // of the client; "": EXAMPLE.COM
	ticket  func(*encTicketPart)
	auth    func(*types.Authenticator)
	request func(*apReq)
	flags   uint32 // of the client; 0: mutual
}

func (k kdc) issue(t testing.TB) Ticket {
	t.Helper()
	of := k.service
	if of == (Principal{}) {
		of = service
	}
	id, version := k.id, k.version
	if id == 0 {
		id = 18
	}
	if version == 0 {
		version = 1
	}
	client, realm := k.client, k.realm
	if client == "" {
		client = "bob"
	}
	if realm == "" {
		realm = "EXAMPLE.COM"
	}
	serviceKey := keyOfVersion(id, version)
	if k.badKey {
		serviceKey = keyOfVersion(id, version+100)
	}
	name := types.PrincipalName{NameType: 1, NameString: strings.Split(client, "/")}
	now := time.Now().UTC().Truncate(time.Second)
	session := serviceKey.newRandomKey()
	part := encTicketPart{
		Flags: types.NewKrbFlags(), Key: session.encoded(), ClientRealm: realm, Client: name,
		AuthTime: now, StartTime: now, EndTime: now.Add(10 * time.Hour),
		AuthorizationData: types.AuthorizationData{{ADType: 1, ADData: []byte("ignored")}},
	}
	if k.ticket != nil {
		k.ticket(&part)
	}
	text, err := marshal(part, tagEncTicket)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := serviceKey.encrypt(text, usageTicket, int(version))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := marshal(ticket{
		Version: protocolVersion, Realm: of.Realm, EncPart: sealed,
		Service: types.PrincipalName{NameType: 2, NameString: strings.Split(of.Name, "/")},
	}, tagTicket)
	if err != nil {
		t.Fatal(err)
	}
	return Ticket{Encoded: encoded, SessionKey: part.Key, Client: name, Realm: realm}
}

// token returns the first token of a client. Its sequence number is 7.
func (k kdc) token(t testing.TB) ([]byte, Ticket) {
	t.Helper()
	issued := k.issue(t)
	session, err := newKey(issued.SessionKey.KeyType, issued.SessionKey.KeyValue)
	if err != nil { // of a ticket that must be rejected before it
		session = keyOfVersion(18, 1)
	}
	flags := k.flags
	if flags == 0 {
		flags = flagMutual
	}
	sum := append(binary.LittleEndian.AppendUint32(nil, bindingsSize), make([]byte, bindingsSize)...)
	now := time.Now().UTC()
	auth := types.Authenticator{
		AVNO: protocolVersion, CRealm: issued.Realm, CName: issued.Client, SeqNumber: 7, CTime: now.Truncate(time.Second), Cusec: now.Nanosecond() / 1000,
		Cksum: types.Checksum{CksumType: checksumType, Checksum: binary.LittleEndian.AppendUint32(sum, flags)},
	}
	if k.auth != nil {
		k.auth(&auth)
	}
	text, err := marshal(auth, tagAuthenticator)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := session.encrypt(text, usageAuthenticator, 0)
	if err != nil {
		t.Fatal(err)
	}
	request := apReq{
		Version: protocolVersion, Type: tagAPReq, Options: types.NewKrbFlags(), Authenticator: sealed,
		Ticket: asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Tag: 3, Bytes: issued.Encoded},
	}
	if k.request != nil {
		k.request(&request)
	}
	message, err := marshal(request, tagAPReq)
	if err != nil {
		t.Fatal(err)
	}
	return appendFramed(nil, tokenAPReq, message), issued
}

// newTestAcceptor returns an acceptor with a change of its configuration.
func newTestAcceptor(t testing.TB, change func(*Config)) *Acceptor {
	t.Helper()
	cfg := Config{
		Service: service, Names: Names{DefaultRealm: "EXAMPLE.COM"},
		ReadKeytab: func() ([]byte, error) { return keytabOf(1), nil },
	}
	if change != nil {
		change(&cfg)
	}
	a, err := NewAcceptor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// logIn runs both sides of a login, and returns the name of the client.
func logIn(t testing.TB, a *Acceptor, issued Ticket) (string, error) {
	t.Helper()
	client, err := NewLogin(issued)
	if err != nil {
		t.Fatal(err)
	}
	x := a.NewExchange()
	var answer []byte
	for {
		token, done, err := client.Step(answer)
		if err != nil {
			t.Fatal(err)
		}
		if done {
			return x.UserName(), nil
		}
		if answer, done, err = x.Step(token); err != nil {
			return "", err
		} else if done && answer != nil {
			t.Fatalf("the last reply is %x", answer)
		}
	}
}

// faultOf returns the fault of an error of an exchange.
func faultOf(t testing.TB, err error) Fault {
	t.Helper()
	failed, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("%v is no fault", err)
	}
	return failed.Fault
}
