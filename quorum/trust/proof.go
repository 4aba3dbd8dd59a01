package trust

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The proof of the secret follows right after the TLS handshake:
//
//	dialed → nonce (32)
//	dialer → from (4), to (4), nonce (32), a proof (32) for each of two secrets
//	dialed → a proof (32) with the secret that both have
//
// A proof is HMAC-SHA256(key of the secret, label || role || from || to || both nonces || keying). The keying is
// exported from the TLS session, so a proof is worth nothing on another connection: a relay has one
// session on each side, with different keying. The role keeps a proof from being sent back to its
// maker. The dialed side sends nothing that depends on a secret before the dialer has proved itself. A process that has taken
// over an address does get proofs of dialers, so the key is derived slowly (package slowkey): each secret that it tries costs as much.
// Everything has a fixed size. With one secret the second proof is random bytes.
//
// The version of the proof is in the protocol that TLS negotiates (secretProtocol). Which ensemble is
// meant is left to the hello, whose refusal can say what is wrong.
const (
	secretProtocol = "rollcall-secret-1"
	proofLabel     = "rollcall proof of a member, 1"
	keyingLabel    = "EXPORTER-rollcall-member-proof-1"

	nonceSize  = 32
	proofSize  = sha256.Size
	dialerSize = 4 + 4 + nonceSize + maxSecrets*proofSize
)

// role is which end of the connection a proof is of.
type role string

const (
	roleDialer role = "dialer"
	roleDialed role = "dialed"
)

type (
	nonce [nonceSize]byte
	proof [proofSize]byte
)

// exchange is what both ends know of one connection, except for the secret.
type exchange struct {
	from, to       uint32
	dialed, dialer nonce
	keying         []byte
}

// prove returns the proof of one end.
func (e *exchange) prove(s secret, by role) (p proof) {
	key := s.key()
	h := hmac.New(sha256.New, key[:])
	b := append(make([]byte, 0, 256), proofLabel...)
	b = append(b, by...)
	b = binary.BigEndian.AppendUint32(b, e.from)
	b = binary.BigEndian.AppendUint32(b, e.to)
	b = append(b, e.dialed[:]...)
	b = append(b, e.dialer[:]...)
	b = append(b, e.keying...)
	h.Write(b)
	h.Sum(p[:0])
	return p
}

// dialerMessage returns what the dialer sends.
func (e *exchange) dialerMessage(secrets []secret) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, dialerSize), e.from)
	b = binary.BigEndian.AppendUint32(b, e.to)
	b = append(b, e.dialer[:]...)
	for i := range maxSecrets {
		var p proof
		if i < len(secrets) {
			p = e.prove(secrets[i], roleDialer)
		} else {
			_, _ = rand.Read(p[:]) // it never fails
		}
		b = append(b, p[:]...)
	}
	return b
}

// readDialer reads what the dialer has sent, and returns the secret that it has proved. If it has
// proved none, the secret is "".
func (e *exchange) readDialer(msg *[dialerSize]byte, secrets []secret) (proved secret) {
	e.from, e.to = binary.BigEndian.Uint32(msg[:]), binary.BigEndian.Uint32(msg[4:])
	e.dialer = nonce(msg[8:])
	for _, s := range secrets {
		want := e.prove(s, roleDialer)
		for i := range maxSecrets {
			at := 8 + nonceSize + i*proofSize
			if hmac.Equal(want[:], msg[at:at+proofSize]) {
				proved = s
			}
		}
	}
	return proved
}

// confirmed returns the secret that the dialed side has proved, or "".
func (e *exchange) confirmed(answer *proof, secrets []secret) (proved secret) {
	for _, s := range secrets {
		if want := e.prove(s, roleDialed); hmac.Equal(want[:], answer[:]) {
			proved = s
		}
	}
	return proved
}

// begin reads the keying of a new TLS connection.
func (c *Conn) begin() (e exchange, err error) {
	state := c.Conn.(*tls.Conn).ConnectionState()
	e.keying, err = state.ExportKeyingMaterial(keyingLabel, nil, 32)
	return e, err
}

// errNotAccepted is what the dialer sees if the dialed side does not answer its proof.
var errNotAccepted = errors.New("the member does not accept this member's proof; if it logs that the proof is wrong, their ensembleSecretFile have no secret in common")

// proveDialer proves this member to member to, and checks the proof of that.
func (g *Guard) proveDialer(c *Conn, to uint32) (*Conn, error) {
	e, err := c.begin()
	if err != nil {
		return nil, err
	}
	e.from, e.to = g.self, to
	if _, err := io.ReadFull(c, e.dialed[:]); err != nil {
		return nil, fmt.Errorf("no nonce: %w", err)
	}
	_, _ = rand.Read(e.dialer[:]) // it never fails
	secrets := g.secrets.now()
	if _, err := c.Write(e.dialerMessage(secrets)); err != nil {
		return nil, fmt.Errorf("send proof: %w", err)
	}
	var answer proof
	switch _, err := io.ReadFull(c, answer[:]); {
	case errors.Is(err, io.EOF):
		return nil, errNotAccepted
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNotAccepted, err)
	}
	if c.secret = e.confirmed(&answer, secrets); c.secret == "" {
		return nil, errors.New("what answers does not have the ensemble's secret")
	}
	c.member = to
	return c, g.keep(c, to)
}

// proveDialed checks the proof of the dialer, and then proves this member.
func (g *Guard) proveDialed(c *Conn) (*Conn, error) {
	e, err := c.begin()
	if err != nil {
		return nil, &Refusal{BadHandshake, err}
	}
	_, _ = rand.Read(e.dialed[:]) // it never fails
	if _, err := c.Write(e.dialed[:]); err != nil {
		return nil, fmt.Errorf("send nonce: %w", err)
	}
	var msg [dialerSize]byte
	if n, err := io.ReadFull(c, msg[:]); err != nil {
		return nil, refuse(NoProof, "proof cut short after %d bytes of %d: %w", n, dialerSize, err)
	}
	switch c.secret = e.readDialer(&msg, g.secrets.now()); {
	case c.secret == "":
		return nil, refuse(NoProof, "the proof is wrong: a process that says it is member %d has none of the secrets in %s", e.from, g.secrets.path)
	case e.to != g.self:
		return nil, refuse(OtherMember, "the proof is meant for member %d, this is member %d", e.to, g.self)
	case e.from == g.self:
		return nil, refuse(OtherMember, "another process with the secret says it is member %d, which is this one", e.from)
	}
	c.member = e.from
	if err := g.keep(c, c.member); err != nil {
		return nil, &Refusal{NoProof, err}
	}
	answer := e.prove(c.secret, roleDialed)
	if _, err := c.Write(answer[:]); err != nil {
		g.forget(c)
		return nil, fmt.Errorf("send proof: %w", err)
	}
	return c, nil
}
