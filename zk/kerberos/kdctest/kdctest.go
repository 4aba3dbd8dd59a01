// Package kdctest has a small KDC for tests. It makes tickets for the principals that were added, and can be slow, dead or wrong.
package kdctest

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

const (
	// Realm is the realm of every KDC.
	Realm = "EXAMPLE.COM"

	aes256          = 18
	granting        = "krbtgt/" + Realm
	unknownClient   = 6
	unknownService  = 7
	wrongKey        = 24
	serviceReplyUse = 8
	initialReplyUse = 3
	timestampUse    = 1
	maxRequest      = 1 << 16
)

// KDC is a KDC. Make one with New. It is safe for concurrent use.
type KDC struct {
	mu       sync.Mutex
	keys     *keytab.Keytab
	versions map[string]uint8 // of the newest key, by principal
	lifetime time.Duration
	failure  int32
	requests int
}

// New returns a KDC without services, whose tickets last for 10 hours.
func New(t testing.TB) *KDC {
	t.Helper()
	k := &KDC{keys: keytab.New(), versions: map[string]uint8{}, lifetime: 10 * time.Hour}
	k.Add(t, granting)
	return k
}

// Add adds a principal, such as zookeeper/host, or a new version of its key.
func (k *KDC) Add(t testing.TB, principal string) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.versions[principal]++
	version := k.versions[principal]
	if err := k.keys.AddEntry(principal, Realm, fmt.Sprint(principal, version), time.Now(), version, aes256); err != nil {
		t.Fatal(err)
	}
}

// SetLifetime sets the lifetime of new tickets.
func (k *KDC) SetLifetime(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lifetime = d
}

// SetFailure makes the KDC reply with an error of this number to each request. 0 ends that.
func (k *KDC) SetFailure(code int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failure = code
}

// Requests returns the number of requests that have come.
func (k *KDC) Requests() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.requests
}

// Keytab returns a keytab with all keys of these principals.
func (k *KDC) Keytab(t testing.TB, principals ...string) []byte {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	all := keytab.New()
	for _, principal := range slices.Sorted(maps.Keys(k.versions)) {
		if !slices.Contains(principals, principal) {
			continue
		}
		for version := range k.versions[principal] {
			if err := all.AddEntry(principal, Realm, fmt.Sprint(principal, version+1), time.Now(), version+1, aes256); err != nil {
				t.Fatal(err)
			}
		}
	}
	content, err := all.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// WriteKeytab writes a keytab with all keys of these principals into a file of its own, and returns its path.
func (k *KDC) WriteKeytab(t testing.TB, principals ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keytab")
	if err := os.WriteFile(path, k.Keytab(t, principals...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// WriteConf writes a krb5.conf that names the KDC at these addresses, and returns its path.
func WriteConf(t testing.TB, addresses ...string) string {
	t.Helper()
	text := "[libdefaults]\n default_realm = " + Realm + "\n dns_lookup_kdc = false\n[realms]\n " + Realm + " = {\n"
	for _, address := range addresses {
		text += "  kdc = " + address + "\n"
	}
	path := filepath.Join(t.TempDir(), "krb5.conf")
	if err := os.WriteFile(path, []byte(text+" }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Listen serves on a port of the loopback interface until the test ends, and returns its address.
func (k *KDC) Listen(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go k.Serve(conn)
		}
	}()
	return l.Addr().String()
}

// Serve replies to the request on a connection, and closes it.
func (k *KDC) Serve(conn net.Conn) {
	defer conn.Close()
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	message := make([]byte, min(binary.BigEndian.Uint32(size[:]), maxRequest))
	if _, err := io.ReadFull(conn, message); err != nil {
		return
	}
	reply := k.reply(message)
	_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(reply))), reply...))
}

// reply returns the reply to a request. It panics if the request is none of a client that works.
func (k *KDC) reply(message []byte) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.requests++
	var initial messages.ASReq
	if k.failure != 0 {
		return failure(k.failure)
	}
	if initial.Unmarshal(message) == nil {
		return k.replyInitial(initial)
	}
	var service messages.TGSReq
	must(service.Unmarshal(message))
	return k.replyService(service)
}

func (k *KDC) replyInitial(r messages.ASReq) []byte {
	client := r.ReqBody.CName.PrincipalNameString()
	if k.versions[client] == 0 {
		return failure(unknownClient)
	}
	var proof types.EncryptedData
	must(proof.Unmarshal(r.PAData[0].PADataValue))
	key, _, err := k.keys.GetEncryptionKey(r.ReqBody.CName, Realm, proof.KVNO, aes256)
	if err != nil {
		return failure(wrongKey)
	}
	if _, err := crypto.DecryptEncPart(proof, key, timestampUse); err != nil {
		return failure(wrongKey)
	}
	fields := k.fields(r.ReqBody, r.ReqBody.CName, key, initialReplyUse, proof.KVNO)
	fields.MsgType = 11
	reply, err := (&messages.ASRep{KDCRepFields: fields}).Marshal()
	must(err)
	return reply
}

func (k *KDC) replyService(r messages.TGSReq) []byte {
	if k.versions[r.ReqBody.SName.PrincipalNameString()] == 0 {
		return failure(unknownService)
	}
	var request messages.APReq
	must(request.Unmarshal(r.PAData[0].PADataValue))
	must(request.Ticket.DecryptEncPart(k.keys, nil))
	part := request.Ticket.DecryptedEncPart
	fields := k.fields(r.ReqBody, part.CName, part.Key, serviceReplyUse, 0)
	fields.MsgType = 13
	reply, err := (&messages.TGSRep{KDCRepFields: fields}).Marshal()
	must(err)
	return reply
}

// fields returns a reply with a ticket, encrypted with a key of the client.
func (k *KDC) fields(body messages.KDCReqBody, client types.PrincipalName, key types.EncryptionKey, usage uint32, version int) messages.KDCRepFields {
	now := time.Now().UTC().Truncate(time.Second)
	ends := now.Add(k.lifetime)
	service := body.SName
	ticket, session, err := messages.NewTicket(client, Realm, service, Realm, types.NewKrbFlags(), k.keys, aes256,
		int(k.versions[service.PrincipalNameString()]), now, now, ends, ends)
	must(err)
	part := messages.EncKDCRepPart{
		Key: session, Nonce: body.Nonce, Flags: types.NewKrbFlags(), AuthTime: now, StartTime: now, EndTime: ends, SRealm: Realm, SName: service,
		LastReqs: []messages.LastReq{{LRValue: now}},
	}
	text, err := part.Marshal()
	must(err)
	sealed, err := crypto.GetEncryptedData(text, key, usage, version)
	must(err)
	return messages.KDCRepFields{PVNO: 5, CRealm: Realm, CName: client, Ticket: ticket, EncPart: sealed}
}

func failure(code int32) []byte {
	name := types.PrincipalName{NameType: 2, NameString: []string{"krbtgt", Realm}}
	e := messages.NewKRBError(name, Realm, code, "")
	reply, err := e.Marshal()
	must(err)
	return reply
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
