package target

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Proof is the means by which Rollcall's members prove themselves to each other.
type Proof int

const (
	BySecret Proof = iota
	ByCertificates
	Unproven // they believe everybody
)

// proofs holds the secret or the certificates of Rollcall's members, and the state of their rotation.
type proofs struct {
	secret, next string // next is "" unless a rotation is under way
	authorities  int    // how many have been made; the last one issued the newest certificates
}

// prover gives members what they prove themselves with, and rotates it.
type prover struct{ operators }

// The files of a member in its directory.
const (
	secretFile = "secret"
	keyFile    = "tls.pem" // its certificate and key
	trustFile  = "ca.pem"  // the authorities that it believes
)

// clientName is the name in the certificate of the clients, and of the directory with their files.
const clientName = "client"

// makeCredentials makes the token of administrators, and what members prove themselves with.
func (t prover) makeCredentials(ctx context.Context) error {
	if t.launcher.rollcall && !t.cfg.NoAdmin && t.token == "" {
		t.token = filepath.Join(t.dir, "token")
		token := rand.Text()
		if err := os.WriteFile(t.token, []byte(token+"\n"), 0o600); err != nil {
			return err
		}
		for _, m := range t.members {
			m.Token = token
		}
	}
	t.proofs.secret = cmp.Or(t.proofs.secret, rand.Text())
	if !t.cfg.hasCertificates() || t.proofs.authorities > 0 {
		return nil
	}
	if err := os.Mkdir(filepath.Dir(t.clientFiles().config), 0o700); err != nil {
		return err
	}
	if err := t.newAuthority(ctx); err != nil {
		return err
	}
	return errors.Join(t.installKey(t.clientFiles(), clientName), t.installTrust(t.clientFiles(), t.proofs.authorities))
}

// hasCertificates reports whether members or clients show certificates.
func (c *ProcessConfig) hasCertificates() bool { return c.Secure || c.Proof == ByCertificates }

// clientFiles stands for the clients, which have files as a member has.
func (t prover) clientFiles() *member {
	return &member{config: filepath.Join(t.dir, clientName, "zoo.cfg")}
}

// proofLines writes the files by which a member proves itself, and returns the lines of zoo.cfg that name them.
func (t prover) proofLines(m *member) (string, error) {
	var lines string
	var failed []error
	proves := t.launcher.rollcall && len(t.members) > 1
	if proves && t.cfg.Proof == BySecret {
		lines += "ensembleSecretFile=" + m.filePath(secretFile) + "\n"
		failed = append(failed, m.replaceFile(secretFile, t.proofs.secret+"\n"))
	}
	if proves && t.cfg.Proof == ByCertificates {
		lines += "sslQuorum=true\n" + m.storeLines("ssl.quorum.")
	}
	if t.cfg.Secure {
		m.Secure = net.JoinHostPort(m.ip.String(), strconv.Itoa(m.ports.secure))
		lines += fmt.Sprintf("secureClientPort=%d\nsecureClientPortAddress=%s\n", m.ports.secure, m.ip) + m.storeLines("ssl.")
	}
	if t.cfg.Secure && t.cfg.Program == ZooKeeper {
		lines += "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n" // its other sockets have no TLS
	}
	if t.cfg.hasCertificates() {
		failed = append(failed, t.installKey(m, m.ip.String()), t.installTrust(m, t.proofs.authorities))
	}
	return lines, errors.Join(failed...)
}

// storeLines returns the lines of zoo.cfg about a member's certificates.
func (m *member) storeLines(prefix string) string {
	return fmt.Sprintf("%skeyStore.location=%s\n%strustStore.location=%s\n", prefix, m.filePath(keyFile), prefix, m.filePath(trustFile))
}

// filePath returns the path of a file in a member's directory.
func (m *member) filePath(name string) string { return filepath.Join(filepath.Dir(m.config), name) }

// replaceFile replaces a file in a member's directory at once, as operators should: the member may read it at any time.
func (m *member) replaceFile(name, text string) error {
	next := m.filePath(name + ".next")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, m.filePath(name))
}

// planSecret puts secrets into a member's file, and has it read them.
func (t prover) planSecret(f Fault, _ int) (faultPlan, error) {
	m, p := t.findMember(f.Member), &t.proofs
	return faultPlan{make: func(ctx context.Context) error {
		if p.next == "" {
			p.next = rand.Text()
		}
		text := p.next + "\n"
		if f.Mode == Both {
			text = p.secret + "\n" + text
		}
		err := t.reloadAndWait(ctx, m, func() error { return m.replaceFile(secretFile, text) }, "the ensemble's secrets were reloaded")
		if err == nil && f.Mode == New && m == t.members[len(t.members)-1] {
			p.secret, p.next = p.next, ""
		}
		return err
	}}, nil
}

// planKeys replaces certificates of a member, and has it read them. Those of the clients are replaced with those of the
// first member.
func (t prover) planKeys(f Fault, _ int) (faultPlan, error) {
	m := t.findMember(f.Member)
	return faultPlan{make: func(ctx context.Context) error {
		if m == t.members[0] {
			if f.Mode == Both {
				if err := t.newAuthority(ctx); err != nil {
					return err
				}
			}
			if err := t.installFile(t.clientFiles(), clientName, f.Mode); err != nil {
				return err
			}
		}
		return t.reloadAndWait(ctx, m, func() error { return t.installFile(m, m.ip.String(), f.Mode) }, "keys reloaded")
	}}, nil
}

// installFile replaces what a step of a rotation replaces. name is that in the certificate.
func (t prover) installFile(m *member, name, mode string) error {
	newest := t.proofs.authorities
	switch mode {
	case Both:
		return t.installTrust(m, newest-1, newest)
	case Own:
		return t.installKey(m, name)
	default:
		return t.installTrust(m, newest)
	}
}

// newAuthority makes an authority, and certificates for all members and for the clients.
func (t prover) newAuthority(ctx context.Context) error {
	t.proofs.authorities++
	args := []string{"certs", "--out", t.authorityFile(t.proofs.authorities, "")}
	for _, m := range t.members {
		args = append(args, m.ip.String())
	}
	return t.runCommand(ctx, t.members[0], append(args, clientName)...)
}

// authorityFile returns the path of a file of an authority.
func (t prover) authorityFile(authority int, name string) string {
	return filepath.Join(t.dir, "certs-"+strconv.Itoa(authority), name)
}

// installKey gives a member the newest certificate with a name.
func (t prover) installKey(m *member, name string) error {
	text, err := os.ReadFile(t.authorityFile(t.proofs.authorities, name+".pem"))
	if err != nil {
		return err
	}
	return m.replaceFile(keyFile, string(text))
}

// installTrust lets a member believe authorities.
func (t prover) installTrust(m *member, authorities ...int) error {
	var all strings.Builder
	for _, authority := range authorities {
		text, err := os.ReadFile(t.authorityFile(authority, trustFile))
		if err != nil {
			return err
		}
		all.Write(text)
	}
	return m.replaceFile(trustFile, all.String())
}

// ClientTLS returns the settings with which the clients connect to Member.Secure: with the certificate and the authorities that are
// in their files at the time of each handshake. It is nil if the members take no clients over TLS.
func (t *Processes) ClientTLS() *tls.Config {
	if !t.cfg.Secure {
		return nil
	}
	client := (prover{operators{t}}).clientFiles()
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(client.filePath(keyFile), client.filePath(keyFile))
			return &pair, err
		},
		InsecureSkipVerify: true, // VerifyConnection verifies, with authorities that change
		VerifyConnection: func(state tls.ConnectionState) error {
			text, err := os.ReadFile(client.filePath(trustFile))
			if err != nil {
				return err
			}
			trusted := x509.NewCertPool()
			trusted.AppendCertsFromPEM(text)
			_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: state.ServerName, Roots: trusted})
			return err
		},
	}
}
