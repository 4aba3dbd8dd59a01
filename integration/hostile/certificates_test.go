package hostile

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/internal/keystore/authority"
	"rollcall/lab/process"
)

// certified are three members with certificates of one authority, each for its own address.
type certified struct {
	*process.Ensemble
	ensemble
	dir       string
	authority *authority.Authority
}

// startCertified starts the members plainly, since their addresses are not known before, and then again
// with certificates. They also believe another authority, whose certificate is also.
func startCertified(t *testing.T, also []byte) certified {
	t.Helper()
	now := time.Now()
	ca, err := authority.New("members", now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c := certified{process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 3, Tick: tick}), ensemble{}, t.TempDir(), ca}
	c.ensemble = known(t, c.Members[0])
	cert, _, err := ca.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	trusted := c.write(t, "authorities.pem", append(cert, also...))
	for _, m := range c.Members {
		m.Process.Kill()
		f, err := os.OpenFile(m.Config, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(f, "sslQuorum=true\nssl.quorum.keyStore.location=%s\nssl.quorum.trustStore.location=%s\n",
			c.write(t, fmt.Sprintf("member%d.pem", m.ID), c.issue(t, ca, m.ID, now)), trusted); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range c.Members {
		c.Start(m)
	}
	c.Settle()
	return c
}

// write writes a file that its owner alone can read, and returns its path.
func (c certified) write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// issue returns a key with a certificate for a member's address, which is valid for half an hour from then.
func (c certified) issue(t *testing.T, by *authority.Authority, member int, from time.Time) []byte {
	t.Helper()
	host, _, err := net.SplitHostPort(c.list[member-1].Addr)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := by.Issue([]string{host}, from, 30*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return pem
}

// Strangers connect to the ports for members of an ensemble with certificates: without a certificate, with one of
// another authority, with an expired one, and with the right one of another member. Each is rejected on both ports, gets
// no information, and is named in the log.
func TestStrangersWithCertificates(t *testing.T) {
	needs.Check(t, needs.Nightly)
	now := time.Now()
	other, err := authority.New("members", now, time.Hour) // its name is the same
	if err != nil {
		t.Fatal(err)
	}
	// The members believe this one too, so that nothing but the date is wrong with what it issued.
	old, err := authority.New("of yesterday", now.Add(-48*time.Hour), 72*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, _, err := old.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	c := startCertified(t, cert)
	right := func(speaker int) []byte { return c.issue(t, c.authority, speaker, now) }
	for _, tt := range []struct {
		name   string
		victim int // each logs a kind of refusal once in 10 s
		pem    func(speaker int) []byte
		other  bool   // the hello names another member than the certificate
		why    string // as logged; "": the stranger is taken for a member
	}{
		{"the right certificate", 1, right, false, ""},
		{"no certificate", 1, nil, false, "certificate"},
		{"a certificate of another authority", 2, func(m int) []byte { return c.issue(t, other, m, now) }, false, "authority"},
		{"a certificate of yesterday", 3, func(m int) []byte { return c.issue(t, old, m, now.Add(-24*time.Hour)) }, false, "expired"},
		{"the right certificate, and another member's name", 1, right, true, "member 3"},
	} {
		speaker := tt.victim%3 + 1
		says := speaker
		if tt.other {
			says = 6 - tt.victim - speaker
		}
		for port := range 2 {
			s := c.try(t.Context(), uint32(tt.victim), port)
			if s.err != nil {
				t.Fatal(s.err)
			}
			from := s.conn.LocalAddr().String()
			cfg := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"rollcall-certificate-1"}, InsecureSkipVerify: true}
			if tt.pem != nil {
				pem := tt.pem(speaker)
				pair, err := tls.X509KeyPair(pem, pem)
				if err != nil {
					t.Fatal(err)
				}
				cfg.Certificates = []tls.Certificate{pair}
			}
			s.tls = tls.Client(s.conn, cfg)
			if err := s.tls.Handshake(); err != nil {
				t.Errorf("port %d, %s: %v", port, tt.name, err) // the member judges the certificate after it
			}
			_, _ = s.tls.Write(c.hello(uint32(says), uint32(tt.victim))) // it may have been refused by now
			if tt.why == "" {
				var answer [1]byte
				if _, err := s.tls.Read(answer[:]); err != nil || answer[0] != 0 {
					t.Errorf("port %d, %s: answered %d, %v: the others show nothing", port, tt.name, answer, err)
				}
				s.close()
				continue
			}
			if err := s.refused(); err != nil {
				t.Errorf("port %d, %s: %v", port, tt.name, err)
			}
			s.close()
			victim := c.Members[tt.victim-1]
			if err := process.Until(t.Context(), "a line about "+tt.name, func() bool { return refusalOf(t, victim, from) != "" }); err != nil {
				t.Error(err)
			}
			if line := refusalOf(t, victim, from); !strings.Contains(line, tt.why) {
				t.Errorf("port %d, %s: logged %q", port, tt.name, line)
			}
		}
	}
}

// refusalOf returns the line in which a member names an address, or "" if there is none.
func refusalOf(t *testing.T, m *process.Member, from string) string {
	t.Helper()
	for line := range strings.Lines(output(t, m)) {
		if strings.Contains(line, "remote="+from+" ") {
			return line
		}
	}
	return ""
}
