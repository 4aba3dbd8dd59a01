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

	"rollcall/internal/slowkey"
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
func (e *proofExchange) computeProof(key slowkey.Key, by role) (p proof) {
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

func (e *proofExchange) encodeDialerMessage(keys []slowkey.Key) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, dialerMessageSize), e.from)
	b = binary.BigEndian.AppendUint32(b, e.to)
	b = append(b, e.dialerNonce[:]...)
	for i := range maxSecrets {
		var p proof
		if i < len(keys) {
			p = e.computeProof(keys[i], roleDialer)
		} else {
			_, _ = rand.Read(p[:]) // it never fails
		}
		b = append(b, p[:]...)
	}
	return b
}

// noKey is the index of a key that was not proved.
const noKey = -1

// decodeDialerMessage decodes the dialer's message, and returns the index of the key that the dialer has proved, or
// noKey.
func (e *proofExchange) decodeDialerMessage(msg *[dialerMessageSize]byte, keys []slowkey.Key) (proved int) {
	e.from, e.to = binary.BigEndian.Uint32(msg[:]), binary.BigEndian.Uint32(msg[4:])
	e.dialerNonce = nonce(msg[8:])
	proved = noKey
	for k, key := range keys {
		want := e.computeProof(key, roleDialer)
		for i := range maxSecrets {
			at := 8 + nonceSize + i*proofSize
			if hmac.Equal(want[:], msg[at:at+proofSize]) {
				proved = k
			}
		}
	}
	return proved
}

// confirmedKey returns the index of the key that the dialed side has proved, or noKey.
func (e *proofExchange) confirmedKey(answer *proof, keys []slowkey.Key) (proved int) {
	proved = noKey
	for k, key := range keys {
		if want := e.computeProof(key, roleDialed); hmac.Equal(want[:], answer[:]) {
			proved = k
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
var ErrProofRejected = errors.New("the member does not accept this member's proof")

// errOtherSecret says what to do if that was the proof of a secret.
var errOtherSecret = fmt.Errorf("the secret differs: %w; give both the same ensembleSecretFile, or the same section of "+
	"quorum.auth, or if they have it, see the log there", ErrProofRejected)

// proveSecretAsDialer proves this member to member to by a secret, and checks that member's proof.
func (g *Guard) proveSecretAsDialer(c *Conn, to uint32) error {
	secrets := g.secrets.currentSecrets()
	at, err := g.proveAsDialer(c, to, keysOf(secrets), errOtherSecret)
	switch {
	case err != nil:
		return err
	case at == noKey:
		return errors.New("the other end does not have the ensemble's secret")
	}
	c.provedSecret = secrets[at]
	return nil
}

// proveAsDialer proves keys to member to, and returns the index of the key that it has proved, or noKey. It returns
// rejected if that member does not reply.
func (g *Guard) proveAsDialer(c *Conn, to uint32, keys []slowkey.Key, rejected error) (at int, err error) {
	e, err := c.newExchange()
	if err != nil {
		return noKey, err
	}
	e.from, e.to = g.memberID, to
	if _, err := io.ReadFull(c, e.dialedNonce[:]); err != nil {
		return noKey, fmt.Errorf("no nonce: %w", err)
	}
	_, _ = rand.Read(e.dialerNonce[:]) // it never fails
	if _, err := c.Write(e.encodeDialerMessage(keys)); err != nil {
		return noKey, fmt.Errorf("send proof: %w", err)
	}
	var answer proof
	switch _, err := io.ReadFull(c, answer[:]); {
	case errors.Is(err, io.EOF):
		return noKey, rejected
	case err != nil:
		return noKey, fmt.Errorf("%w: %w", rejected, err)
	}
	return e.confirmedKey(&answer, keys), nil
}

// proveSecretAsDialed checks that the dialer has a secret, and then proves this member.
func (g *Guard) proveSecretAsDialed(c *Conn) error {
	secrets := g.secrets.currentSecrets()
	return g.proveAsDialed(c, keysOf(secrets), func(at int, from uint32) error {
		if at == noKey {
			return newRejection(NoProof, "the proof is wrong: a process that says it is member %d has none of the secrets in %s",
				from, g.secrets.source.path)
		}
		c.provedSecret = secrets[at]
		return nil
	})
}

// proveAsDialed checks the dialer's proof of a key, and then proves this member. take is called with the index of the
// key that was proved, and with the member that the dialer says it is; an error of it ends the proof.
func (g *Guard) proveAsDialed(c *Conn, keys []slowkey.Key, take func(at int, from uint32) error) error {
	e, err := c.newExchange()
	if err != nil {
		return &Rejection{BadHandshake, err}
	}
	_, _ = rand.Read(e.dialedNonce[:]) // it never fails
	if _, err := c.Write(e.dialedNonce[:]); err != nil {
		return fmt.Errorf("send nonce: %w", err)
	}
	var msg [dialerMessageSize]byte
	if n, err := io.ReadFull(c, msg[:]); err != nil {
		return newRejection(NoProof, "proof cut short after %d bytes of %d: %w", n, dialerMessageSize, err)
	}
	at := e.decodeDialerMessage(&msg, keys)
	if err := take(at, e.from); err != nil {
		return err
	}
	switch {
	case e.to != g.memberID:
		return newRejection(OtherMember, "the proof is meant for member %d, this is member %d", e.to, g.memberID)
	case e.from == g.memberID:
		return newRejection(OtherMember, "another process with the secret says it is member %d, which is this one",
			e.from)
	}
	c.provedMember = e.from
	if err := g.trackProved(c, c.provedMember); err != nil {
		return &Rejection{NoProof, err}
	}
	answer := e.computeProof(keys[at], roleDialed)
	if _, err := c.Write(answer[:]); err != nil {
		g.untrack(c)
		return fmt.Errorf("send proof: %w", err)
	}
	return nil
}

func keysOf(secrets []secret) []slowkey.Key {
	keys := make([]slowkey.Key, len(secrets))
	for i, s := range secrets {
		keys[i] = s.proofKey()
	}
	return keys
}
