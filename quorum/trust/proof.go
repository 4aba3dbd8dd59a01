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
// A proof is HMAC-SHA256(key of the secret, label || role || from || to || both nonces || keying). The keying
// is exported from the TLS session, so a proof is worth nothing on another connection: a relay has one session
// on each side, with different keying. The role keeps a proof from being sent back to its maker. The dialed
// side sends nothing that depends on a secret before the dialer has proved itself. A process that has taken
// over an address does get proofs of dialers, so the key is derived slowly (package slowkey): each secret that
// it tries costs as much. Everything has a fixed size. With one secret the second proof is random bytes.
//
// The version of the proof is in the protocol that TLS negotiates (secretProtocol). The hello names
// the ensemble, because its rejection can carry a reason.
const (
	secretProtocol = "rollcall-secret-1"
	proofLabel     = "rollcall proof of a member, 1"
	keyingLabel    = "EXPORTER-rollcall-member-proof-1"

	nonceSize         = 32
	proofSize         = sha256.Size
	dialerMessageSize = 4 + 4 + nonceSize + maxSecrets*proofSize
)

// role is one end of a connection.
type role string

const (
	roleDialer role = "dialer"
	roleDialed role = "dialed"
)

type (
	nonce [nonceSize]byte
	proof [proofSize]byte
)

// proofExchange has the values of one connection that both ends know without the secret.
type proofExchange struct {
	from, to                 uint32
	dialedNonce, dialerNonce nonce
	keyingMaterial           []byte
}

// computeProof returns the proof of one end.
func (e *proofExchange) computeProof(s secret, by role) (p proof) {
	key := s.proofKey()
	h := hmac.New(sha256.New, key[:])
	b := append(make([]byte, 0, 256), proofLabel...)
	b = append(b, by...)
	b = binary.BigEndian.AppendUint32(b, e.from)
	b = binary.BigEndian.AppendUint32(b, e.to)
	b = append(b, e.dialedNonce[:]...)
	b = append(b, e.dialerNonce[:]...)
	b = append(b, e.keyingMaterial...)
	h.Write(b)
	h.Sum(p[:0])
	return p
}

func (e *proofExchange) encodeDialerMessage(secrets []secret) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, dialerMessageSize), e.from)
	b = binary.BigEndian.AppendUint32(b, e.to)
	b = append(b, e.dialerNonce[:]...)
	for i := range maxSecrets {
		var p proof
		if i < len(secrets) {
			p = e.computeProof(secrets[i], roleDialer)
		} else {
			_, _ = rand.Read(p[:]) // it never fails
		}
		b = append(b, p[:]...)
	}
	return b
}

// decodeDialerMessage decodes the dialer's message, and returns the secret that the dialer has proved, or "" if
// none.
func (e *proofExchange) decodeDialerMessage(msg *[dialerMessageSize]byte, secrets []secret) (proved secret) {
	e.from, e.to = binary.BigEndian.Uint32(msg[:]), binary.BigEndian.Uint32(msg[4:])
	e.dialerNonce = nonce(msg[8:])
	for _, s := range secrets {
		want := e.computeProof(s, roleDialer)
		for i := range maxSecrets {
			at := 8 + nonceSize + i*proofSize
			if hmac.Equal(want[:], msg[at:at+proofSize]) {
				proved = s
			}
		}
	}
	return proved
}

// confirmedSecret returns the secret that the dialed side has proved, or "".
func (e *proofExchange) confirmedSecret(answer *proof, secrets []secret) (proved secret) {
	for _, s := range secrets {
		if want := e.computeProof(s, roleDialed); hmac.Equal(want[:], answer[:]) {
			proved = s
		}
	}
	return proved
}

func (c *Conn) newExchange() (e proofExchange, err error) {
	state := c.Conn.(*tls.Conn).ConnectionState()
	e.keyingMaterial, err = state.ExportKeyingMaterial(keyingLabel, nil, 32)
	return e, err
}

// ErrProofRejected is the dialer's error if the dialed side does not reply to its proof.
var ErrProofRejected = errors.New("the secret differs: the member does not accept this member's proof; give both the same " +
	"ensembleSecretFile, or the same section of quorum.auth, or if they have it, see the log there")

// proveAsDialer proves this member to member to, and checks that member's proof.
func (g *Guard) proveAsDialer(c *Conn, to uint32) (*Conn, error) {
	e, err := c.newExchange()
	if err != nil {
		return nil, err
	}
	e.from, e.to = g.memberID, to
	if _, err := io.ReadFull(c, e.dialedNonce[:]); err != nil {
		return nil, fmt.Errorf("no nonce: %w", err)
	}
	_, _ = rand.Read(e.dialerNonce[:]) // it never fails
	secrets := g.secrets.currentSecrets()
	if _, err := c.Write(e.encodeDialerMessage(secrets)); err != nil {
		return nil, fmt.Errorf("send proof: %w", err)
	}
	var answer proof
	switch _, err := io.ReadFull(c, answer[:]); {
	case errors.Is(err, io.EOF):
		return nil, ErrProofRejected
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrProofRejected, err)
	}
	if c.provedSecret = e.confirmedSecret(&answer, secrets); c.provedSecret == "" {
		return nil, errors.New("the other end does not have the ensemble's secret")
	}
	c.provedMember = to
	return c, g.trackProved(c, to)
}

// proveAsDialed checks the dialer's proof, and then proves this member.
func (g *Guard) proveAsDialed(c *Conn) (*Conn, error) {
	e, err := c.newExchange()
	if err != nil {
		return nil, &Rejection{BadHandshake, err}
	}
	_, _ = rand.Read(e.dialedNonce[:]) // it never fails
	if _, err := c.Write(e.dialedNonce[:]); err != nil {
		return nil, fmt.Errorf("send nonce: %w", err)
	}
	var msg [dialerMessageSize]byte
	if n, err := io.ReadFull(c, msg[:]); err != nil {
		return nil, newRejection(NoProof, "proof cut short after %d bytes of %d: %w", n, dialerMessageSize, err)
	}
	switch c.provedSecret = e.decodeDialerMessage(&msg, g.secrets.currentSecrets()); {
	case c.provedSecret == "":
		return nil, newRejection(NoProof,
			"the proof is wrong: a process that says it is member %d has none of the secrets in %s",
			e.from, g.secrets.source.path)
	case e.to != g.memberID:
		return nil, newRejection(OtherMember, "the proof is meant for member %d, this is member %d", e.to, g.memberID)
	case e.from == g.memberID:
		return nil, newRejection(OtherMember, "another process with the secret says it is member %d, which is this one",
			e.from)
	}
	c.provedMember = e.from
	if err := g.trackProved(c, c.provedMember); err != nil {
		return nil, &Rejection{NoProof, err}
	}
	answer := e.computeProof(c.provedSecret, roleDialed)
	if _, err := c.Write(answer[:]); err != nil {
		g.untrack(c)
		return nil, fmt.Errorf("send proof: %w", err)
	}
	return c, nil
}
