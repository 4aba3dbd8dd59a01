package hostile

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/crypto/argon2"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
	"rollcall/zk/jute"
)

const (
	sharedSecret = "the members of this ensemble alone know this"
	// strangersAtOnce is the number of strangers that try at a time, and strangerPause the time that each rests after a
	// try. They and the members share the processors, and a handshake costs both sides a signature.
	strangersAtOnce = 4
	strangerPause   = 5 * time.Millisecond
	// leastTries is the least number of tries, or the figures are worthless.
	leastTries = 1000
	// linesPerKind is the number of lines about one kind of rejection that a member may log on a port in this test: one
	// in 10 s, and it lasts less than a minute.
	linesPerKind = 6
	// kindsLogged is the number of kinds of rejections that strangers cause here.
	kindsLogged = 4
	// crowdSources is the number of addresses of the strangers. They come from few of them to the member that restarts:
	// it does not know the members' addresses yet, because on one machine these are not the ones in the server list.
	crowdSources, fewSources = 250, 3
	// firstHandshakes and handshakesPerSecond bound the handshakes that a member does with strangers, as
	// docs/dev/limits.md has it.
	firstHandshakes, handshakesPerSecond = 64, 20
)

// strangerDisk is the disk that strangers say they have.
const strangerDisk = 7

// ensemble has the facts that a stranger knows of the members: their addresses and numbers, and the id that a right
// hello has.
type ensemble struct {
	id    wire.EnsembleID
	list  []wire.Peer
	ports [][2]string // of each member: gRPC's and raft's
}

// known reads the server list from a member's configuration, and the ensemble's id from a copy of its data directory.
func known(t *testing.T, m *process.Member) (e ensemble) {
	t.Helper()
	text, err := os.ReadFile(m.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range regexp.MustCompile(`(?m)^server\.(\d+)=([^:]+):(\d+):(\d+)$`).FindAllStringSubmatch(string(text), -1) {
		id, _ := strconv.Atoi(s[1]) // it is digits
		e.list = append(e.list, wire.Peer{ID: uint32(id), Addr: net.JoinHostPort(s[2], s[4])})
		e.ports = append(e.ports, [2]string{net.JoinHostPort(s[2], s[3]), net.JoinHostPort(s[2], s[4])})
	}
	e.id = ensembleIn(t, regexp.MustCompile(`(?m)^dataDir=(.*)$`).FindStringSubmatch(string(text))[1])
	return e
}

// ensembleIn returns the id of the ensemble to which the data in a directory belong. Its member may run.
func ensembleIn(t *testing.T, dir string) wire.EnsembleID {
	t.Helper()
	stolen := filepath.Join(t.TempDir(), "copy")
	if err := process.CopyData(stolen, dir); err != nil {
		t.Fatal(err)
	}
	data, err := disk.OpenStopped(disk.Config{DataDir: stolen, RaftLogger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	id, err := data.Stable().Value([]byte("RollcallEnsemble"))
	if err != nil || len(id) != len(wire.EnsembleID{}) {
		t.Fatalf("the ensemble's id: %x, %v", id, err)
	}
	return wire.EnsembleID(id)
}

// hello returns the hello of a member to another one, as quorum/wire describes it.
func (e ensemble) hello(from, to uint32) []byte {
	b := append([]byte("ROLLCALL"), 0, 1)
	b = binary.BigEndian.AppendUint32(b, from)
	b = binary.BigEndian.AppendUint32(b, to)
	for _, n := range []uint64{strangerDisk, 1, 0} { // its disk, its start, and any disk of the other one
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = append(b, e.id[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// try is one connection of a stranger to a member's port. Its steps fail once one has failed.
type try struct {
	e    ensemble
	to   uint32
	port int
	conn net.Conn
	tls  *tls.Conn
	done bool // the TLS handshake
	err  error
}

func (e ensemble) try(ctx context.Context, to uint32, port int) *try {
	return e.tryFrom(ctx, nil, to, port)
}

// tryFrom tries from an address of this machine, if from is not nil.
func (e ensemble) tryFrom(ctx context.Context, from net.Addr, to uint32, port int) *try {
	d := net.Dialer{LocalAddr: from}
	c := &try{e: e, to: to, port: port}
	if c.conn, c.err = d.DialContext(ctx, "tcp", e.ports[to-1][port]); c.err == nil {
		c.err = c.conn.SetDeadline(time.Now().Add(process.Patience))
	}
	return c
}

func (c *try) close() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// handshake does TLS with a certificate, or without one.
func (c *try) handshake(certificate *tls.Certificate) {
	if c.err != nil {
		return
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"rollcall-secret-1"}, InsecureSkipVerify: true}
	if certificate != nil {
		cfg.Certificates = []tls.Certificate{*certificate}
	}
	c.tls = tls.Client(c.conn, cfg)
	c.err = c.tls.Handshake()
	c.done = c.err == nil
}

// nonce reads what the member sends first.
func (c *try) nonce() (n [32]byte) {
	if c.err == nil {
		_, c.err = io.ReadFull(c.tls, n[:])
	}
	return n
}

func (c *try) write(b []byte) {
	if c.err == nil {
		_, c.err = c.tls.Write(b)
	}
}

// keying returns the keying material that a proof is bound to.
func keying(c *tls.Conn) []byte {
	state := c.ConnectionState()
	k, err := state.ExportKeyingMaterial("EXPORTER-rollcall-member-proof-1", nil, 32)
	if err != nil {
		return nil
	}
	return k
}

// proofKeys has the keys of the secrets that strangers use: each takes a tenth of a second.
var proofKeys sync.Map

// proofKey returns the key that is derived from a secret.
func proofKey(secret string) []byte {
	if key, ok := proofKeys.Load(secret); ok {
		return key.([]byte)
	}
	key := argon2.IDKey([]byte(secret), []byte("rollcall secret of an ensemble, 1"), 3, 32<<10, 1, 32)
	proofKeys.Store(secret, key)
	return key
}

// proof returns the bytes that a dialer with a secret sends: see quorum/trust. It is written down here once more, so
// that a change of it does not go unnoticed.
func proof(secret string, from, to uint32, dialed [32]byte, keying []byte) []byte {
	var ours [32]byte
	_, _ = rand.Read(ours[:])
	ids := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, from), to)
	h := hmac.New(sha256.New, proofKey(secret))
	for _, part := range [][]byte{[]byte("rollcall proof of a member, 1"), []byte("dialer"), ids, dialed[:], ours[:], keying} {
		h.Write(part)
	}
	msg := append(ids, ours[:]...)
	return append(h.Sum(msg), make([]byte, 32)...)
}

// refused returns an error unless the member ends the connection without another byte.
func (c *try) refused() error {
	if c.err != nil {
		return c.err
	}
	var r io.Reader = c.conn
	if c.tls != nil {
		r = c.tls
	}
	got, err := io.ReadAll(io.LimitReader(r, 100))
	switch {
	case len(got) > 0:
		return fmt.Errorf("the member answers %q", got)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("the member does not end the connection")
	}
	return nil
}

// strangers try to speak as member 3, each with the facts that it knows. Each returns nil if it is rejected. No two of
// them are rejected for the same reason, unless same says so.
var strangers = []struct {
	name string
	same bool
	try  func(c *try) error
}{
	{"a right hello without a proof", false, func(c *try) error {
		_, c.err = c.conn.Write(c.e.hello(3, c.to))
		return c.refused()
	}},
	{"something else than a member", false, func(c *try) error {
		_, c.err = c.conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		return c.refused()
	}},
	{"TLS and a hello in place of the proof", false, func(c *try) error {
		c.handshake(nil)
		c.nonce()
		c.write(append(c.e.hello(3, c.to), make([]byte, 100)...))
		return c.refused()
	}},
	{"the proof of another secret", true, func(c *try) error {
		c.handshake(nil)
		n := c.nonce()
		if c.err == nil {
			c.write(proof("what a stranger may guess", 3, c.to, n, keying(c.tls)))
		}
		return c.refused()
	}},
	{"a certificate of another authority", true, func(c *try) error {
		c.handshake(foreign(time.Now().Add(time.Hour)))
		n := c.nonce()
		if c.err == nil {
			c.write(proof("", 3, c.to, n, keying(c.tls)))
		}
		return c.refused()
	}},
	{"an expired certificate", true, func(c *try) error {
		c.handshake(foreign(time.Now().Add(-time.Hour)))
		n := c.nonce()
		if c.err == nil {
			c.write(proof("", 3, c.to, n, keying(c.tls)))
		}
		return c.refused()
	}},
	{"a replayed proof", true, func(c *try) error {
		before := c.e.try(context.Background(), c.to, c.port)
		defer before.close()
		before.handshake(nil)
		n := before.nonce()
		if before.err != nil {
			return before.err
		}
		recorded := proof(sharedSecret, 3, c.to, n, keying(before.tls)) // it was right there
		c.handshake(nil)
		c.nonce()
		c.write(recorded)
		return c.refused()
	}},
	{"a relay in the middle", true, func(c *try) error {
		c.handshake(nil)
		n := c.nonce()
		if c.err == nil { // the member that is relayed has another session, with the relay
			c.write(proof(sharedSecret, 3, c.to, n, relayed()))
		}
		return c.refused()
	}},
	{"a relay that turns the answer back", true, func(c *try) error {
		c.handshake(nil)
		n := c.nonce()
		c.write(append(append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, c.to), 3), n[:]...), make([]byte, 64)...))
		return c.refused()
	}},
	{"the right proof, and another member's hello", false, func(c *try) error {
		c.handshake(nil)
		n := c.nonce()
		if c.err == nil {
			c.write(proof(sharedSecret, 3, c.to, n, keying(c.tls)))
		}
		c.nonce() // the member's own proof: the secret is right
		c.write(c.e.hello(3-c.to, c.to))
		return c.refused()
	}},
	{"the right proof for another member", true, func(c *try) error {
		c.handshake(nil)
		n := c.nonce()
		if c.err == nil {
			c.write(proof(sharedSecret, 3, 3-c.to, n, keying(c.tls)))
		}
		return c.refused()
	}},
}

// foreign returns a certificate that a stranger has made, with the name of a member.
var foreign = func() func(end time.Time) *tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return func(end time.Time) *tls.Certificate {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "server.3"}, DNSNames: []string{"localhost"},
			NotBefore: end.Add(-2 * time.Hour), NotAfter: end,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			panic(err)
		}
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
}()

// relayed returns the keying of a session between a member and a relay.
var relayed = sync.OnceValue(func() []byte {
	ours, theirs := net.Pipe()
	relay := tls.Server(theirs, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*foreign(time.Now().Add(time.Hour))}})
	go func() { _ = relay.Handshake() }()
	member := tls.Client(ours, &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true})
	if err := member.Handshake(); err != nil {
		panic(err)
	}
	return keying(member)
})

// secretFile writes the secret of the ensemble.
func secretFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(sharedSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// crowd is strangers that come to all members at a time, from many addresses.
type crowd struct {
	members ensemble
	restart uint32 // the member that restarts
	began   time.Time

	tries, failed atomic.Int64
	handshakes    [4]atomic.Int64 // by member: those that were done
}

// attack lets them try until ctx ends.
func (c *crowd) attack(ctx context.Context) {
	var trying sync.WaitGroup
	for i := range strangersAtOnce {
		trying.Go(func() {
			for n := i; ctx.Err() == nil; n += strangersAtOnce {
				c.try(ctx, n)
				time.Sleep(strangerPause)
			}
		})
	}
	trying.Wait()
}

func (c *crowd) try(ctx context.Context, n int) {
	to, port, sources := uint32(1+n%3), n/3%2, crowdSources
	if to == c.restart {
		sources = fewSources
	}
	from := &net.TCPAddr{IP: net.IPv4(127, 3, byte(to), byte(1+n/6%sources))}
	one := c.members.tryFrom(ctx, from, to, port)
	defer one.close()
	if one.err == nil && strangers[n%len(strangers)].try(one) != nil {
		c.failed.Add(1) // it may have no token, or another one may have taken its place
	}
	c.tries.Add(1)
	if one.done {
		c.handshakes[to].Add(1)
	}
}

// check returns an error for each member that has done more handshakes than it may.
func (c *crowd) check(t *testing.T) {
	t.Helper()
	took := time.Since(c.began)
	t.Logf("%d tries in %v, %d of them ended otherwise", c.tries.Load(), took, c.failed.Load())
	if c.tries.Load() < leastTries {
		t.Errorf("%d tries, want at least %d", c.tries.Load(), leastTries)
	}
	for to := uint32(1); to <= 3; to++ {
		runs := 1
		if to == c.restart {
			runs = 2
		}
		done, most := c.handshakes[to].Load(), int64(runs*firstHandshakes)+int64(handshakesPerSecond*(took.Seconds()+1))
		t.Logf("member %d: %d handshakes with strangers, at most %d are allowed", to, done, most)
		if done > most || done == 0 {
			t.Errorf("member %d has done %d handshakes with strangers, want 1 to %d", to, done, most)
		}
	}
}

// Strangers connect to the ports for members of an ensemble with a secret. Each is rejected on both ports, without a
// byte that helps it. The log names the address of the first of each kind, and few of the thousands that follow. Members
// do few handshakes with them, their clients notice nothing, and a member that restarts meanwhile comes back.
func TestStrangersOnMembersPorts(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e, o := startMembers(t, "", "ensembleSecretFile="+secretFile(t)+"\n")
	members := known(t, e.Members[0])
	victim, restarted := e.Members[0], e.Members[2]
	kinds := 0
	for port := range 2 {
		for _, s := range strangers {
			c := members.try(t.Context(), uint32(victim.ID), port)
			if c.err != nil {
				t.Fatal(c.err)
			}
			from := c.conn.LocalAddr().String()
			if err := s.try(c); err != nil {
				t.Errorf("port %d, %s: %v", port, s.name, err)
			}
			c.close()
			if !s.same {
				kinds++
				logged := func() bool { return strings.Count(output(t, victim), "remote="+from+" ") == 1 }
				if err := process.Until(t.Context(), "a line with the address of "+s.name, logged); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if kinds != 2*kindsLogged {
		t.Errorf("%d kinds are logged, want %d on each port", kinds, kindsLogged)
	}
	c := &crowd{members: members, restart: uint32(restarted.ID), began: time.Now()}
	o.measureDuring(t, c.attack)
	ctx, end := context.WithCancel(t.Context())
	var attacking sync.WaitGroup
	attacking.Go(func() { c.attack(ctx) })
	restarted.Process.Kill()
	e.Start(restarted)
	if err := process.Until(t.Context(), "the member that restarts among strangers", func() bool { return restarted.Mode() != "" }); err != nil {
		t.Error(err)
	}
	if err := process.Until(t.Context(), "strangers have tried often enough", func() bool { return c.tries.Load() >= leastTries }); err != nil {
		t.Error(err)
	}
	end()
	attacking.Wait()
	c.check(t)
	for _, m := range e.Members {
		if n := strings.Count(output(t, m), `msg="refused connection"`); n > 2*kindsLogged*linesPerKind {
			t.Errorf("member %d logs %d refusals, want at most %d", m.ID, n, 2*kindsLogged*linesPerKind)
		}
		if n := strings.Count(output(t, m), `msg="refused connections, because they come faster`); n == 0 || n > linesPerKind {
			t.Errorf("member %d logs %d times that connections come too fast, want 1 to %d", m.ID, n, linesPerKind)
		}
		if m.Mode() == "" {
			t.Errorf("member %d serves no more", m.ID)
		}
	}
	for _, c := range o.sessions {
		if c.member != restarted {
			c.call(t, jute.OpGetData, jute.GetDataRequest{Path: c.path})
		}
	}
}

// output returns a member's log.
func output(t *testing.T, m *process.Member) string {
	t.Helper()
	text, err := os.ReadFile(m.Log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
