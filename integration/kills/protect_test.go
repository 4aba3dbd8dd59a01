package kills

import (
	"context"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/internal/keystore/authority"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

// Three plain members are moved to a secret, to a second one, from there to certificates, and to those
// of another authority, one member after the other, under load. The leader is killed in between. No
// session is lost, nothing acknowledged is lost, and only clients of a member that is restarted or
// killed lose their connection, once.
func TestProtect(t *testing.T) {
	needs.Check(t, needs.Usual)
	began := time.Now()
	p := &protected{run: &run{t: t, sum: &totals{kills: map[role]int{}}, rng: mathrand.New(mathrand.NewPCG(1, 10)), left: map[string]bool{}}}
	p.Ensemble = process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 3, Tick: tick, Lines: "snapCount=2000\nmaxClientCnxns=0\n"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.prepare()
	p.load(ctx)
	sessions := p.sessionIDs()

	p.move("portUnification=true\n" + p.secretLine())
	p.killLeader()
	p.wantPlain(true)
	p.move(p.secretLine())
	p.wantPlain(false)

	p.replace("secret", "the ensemble's secrets were reloaded", firstSecret+"\n"+secondSecret+"\n")
	p.replace("secret", "the ensemble's secrets were reloaded", secondSecret+"\n")
	p.killLeader()

	p.move(p.secretLine() + p.certificateLines())
	p.killLeader()
	p.move(p.certificateLines())
	p.wantPlain(false)

	first, second := p.authority, newAuthority(t)
	p.replace("trusted.pem", "keys reloaded", certificate(t, first)+certificate(t, second))
	p.authority = second
	p.replaceKeys()
	p.replace("trusted.pem", "keys reloaded", certificate(t, second))
	p.killLeader()

	if got := p.sessionIDs(); fmt.Sprint(got) != fmt.Sprint(sessions) {
		t.Errorf("sessions %v became %v", sessions, got)
	}
	p.judge(ctx)
	fmt.Printf("plain, secret, certificates and both rotated: %d restarts, %d kills of leaders, %d disconnects, %d writes acknowledged, in %v\n",
		p.restarts, p.leaderKills, p.disconnects, p.countAcked(), time.Since(began).Round(time.Second))
}

const (
	firstSecret  = "AhV0pWq7m7c0Cw0ZzHq4VnYwq1pQ8M9S"
	secondSecret = "kq2Xv5Jt9eRZ3mPp8bUoW1dC6sLfYh4N"
)

// protected is a run whose members change how they prove themselves.
type protected struct {
	*run
	authority                          *authority.Authority
	plain                              map[*process.Member]string // their first configurations
	restarts, leaderKills, disconnects int
}

// prepare writes the secret and the certificates of all members.
func (p *protected) prepare() {
	p.t.Helper()
	p.authority, p.plain = newAuthority(p.t), map[*process.Member]string{}
	for _, m := range p.Members {
		text, err := os.ReadFile(m.Config)
		if err != nil {
			p.t.Fatal(err)
		}
		p.plain[m] = string(text)
		p.write(m, "secret", firstSecret+"\n")
		p.write(m, "trusted.pem", certificate(p.t, p.authority))
		p.write(m, "own.pem", p.issue(m))
	}
}

func (p *protected) file(m *process.Member, name string) string {
	return filepath.Join(filepath.Dir(m.Config), fmt.Sprintf("%s-%d", name, m.ID)+filepath.Ext(name))
}

// write replaces a member's file at once.
func (p *protected) write(m *process.Member, name, text string) {
	p.t.Helper()
	path := p.file(m, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		p.t.Fatal(err)
	}
}

func (p *protected) secretLine() string { return "ensembleSecretFile=FILE:secret\n" }

func (p *protected) certificateLines() string {
	return "sslQuorum=true\nssl.quorum.keyStore.location=FILE:own.pem\nssl.quorum.trustStore.location=FILE:trusted.pem\n"
}

var (
	fileName   = regexp.MustCompile(`FILE:([a-z.]+)`)
	serverLine = `(?m)^server\.%d=([^:]+):\d+:(\d+)$`
)

// raftPort returns the address of a member's port for the log.
func (p *protected) raftPort(m *process.Member) (host, port string) {
	match := regexp.MustCompile(fmt.Sprintf(serverLine, m.ID)).FindStringSubmatch(p.plain[m])
	if match == nil {
		p.t.Fatalf("no server line of member %d in:\n%s", m.ID, p.plain[m])
	}
	return match[1], match[2]
}

func (p *protected) host(m *process.Member) string { host, _ := p.raftPort(m); return host }

// move restarts one member after the other with these lines in its configuration.
func (p *protected) move(lines string) {
	p.t.Helper()
	for _, m := range p.Members {
		own := fileName.ReplaceAllStringFunc(lines, func(s string) string { return p.file(m, strings.TrimPrefix(s, "FILE:")) })
		if err := os.WriteFile(m.Config, []byte(p.plain[m]+own), 0o600); err != nil {
			p.t.Fatal(err)
		}
		p.restarts++
		p.costsOnly(m, func() {
			p.terminate(m)
			p.Start(m)
			p.awaitAllServing()
			p.awaitWrites()
		})
	}
}

// killLeader kills the leader and starts it again.
func (p *protected) killLeader() {
	p.t.Helper()
	m := p.leads()
	p.leaderKills++
	p.costsOnly(m, func() {
		process.KillAll([]*process.Member{m})
		p.awaitWrites() // under another leader
		p.Start(m)
		p.awaitAllServing()
	})
}

// replace writes a file of every member, has it read, and waits until the members log that.
func (p *protected) replace(name, logs, text string) {
	p.t.Helper()
	for _, m := range p.Members {
		p.replaceOne(m, name, logs, text)
	}
}

// replaceKeys gives every member a new key with a certificate of the present authority.
func (p *protected) replaceKeys() {
	p.t.Helper()
	for _, m := range p.Members {
		p.replaceOne(m, "own.pem", "keys reloaded", p.issue(m))
	}
}

func (p *protected) replaceOne(m *process.Member, name, logs, text string) {
	p.t.Helper()
	before := strings.Count(allOutput(m), logs)
	p.write(m, name, text)
	p.costsOnly(nil, func() {
		if err := m.Process.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			p.t.Fatal(err)
		}
		if err := process.Until(p.t.Context(), fmt.Sprintf("member %d reads %s again", m.ID, name), func() bool {
			return strings.Count(allOutput(m), logs) > before
		}); err != nil {
			p.t.Fatal(err)
		}
		p.awaitWrites()
	})
}

// costsOnly runs do, and checks that only clients of member m lose their connection, and only once.
func (p *protected) costsOnly(m *process.Member, do func()) {
	p.t.Helper()
	type place struct {
		at    uint32
		count int
	}
	before := make([]place, len(p.writers))
	for i, w := range p.writers {
		before[i] = place{w.client.Member(), w.client.Disconnects()}
	}
	do()
	for i, w := range p.writers {
		lost, allowed := w.client.Disconnects()-before[i].count, 0
		if m != nil && before[i].at == uint32(m.ID) {
			allowed = 1
		}
		if lost > allowed {
			p.t.Errorf("client %d of member %d lost its connection %d times, want %d at most", i, before[i].at, lost, allowed)
		}
		p.disconnects += lost
	}
}

func (p *protected) sessionIDs() (ids []jute.SessionID) {
	for _, w := range p.writers {
		ids = append(ids, w.client.Session())
	}
	return ids
}

// A member that does not take a plain hello closes the connection at once, as fast as its machine can. One that takes
// a hello waits 5 s for the rest.
const closesWithin, waitsFor = 4 * time.Second, time.Second

// wantPlain checks whether members take a plain hello, which is too short to be answered: a member
// that takes one waits for the rest.
func (p *protected) wantPlain(taken bool) {
	p.t.Helper()
	for _, m := range p.Members {
		host, port := p.raftPort(m)
		conn, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			p.t.Fatal(err)
		}
		_, _ = conn.Write([]byte("ROLLCALL"))
		_ = conn.SetReadDeadline(time.Now().Add(map[bool]time.Duration{true: waitsFor, false: closesWithin}[taken]))
		answer, err := io.ReadAll(conn)
		_ = conn.Close()
		if waits := os.IsTimeout(err); waits != taken || len(answer) > 0 {
			p.t.Errorf("member %d answers a plain hello with %q, %v; want it taken: %t", m.ID, answer, err, taken)
		}
	}
}

// certified is the lifetime of certificates.
const certified = 365 * 24 * time.Hour

func newAuthority(t *testing.T) *authority.Authority {
	t.Helper()
	a, err := authority.New("authority", time.Now(), certified)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// certificate returns the certificate of an authority.
func certificate(t *testing.T, a *authority.Authority) string {
	t.Helper()
	text, _, err := a.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// issue returns a new key for a member, with a certificate of the present authority.
func (p *protected) issue(m *process.Member) string {
	p.t.Helper()
	text, err := p.authority.Issue([]string{p.host(m)}, time.Now(), certified)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}
