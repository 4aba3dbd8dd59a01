// Package tokenproof proves the token of administrators on a connection, in both directions, without sending
// it. A process that listens at a member's address learns nothing with which it could speak to a member, and
// a command accepts nothing from such a process.
//
// The connection is TLS 1.3 with a certificate that is blank and not checked. These messages follow:
//
//	member → nonce (32)
//	command → nonce (32), proof (32)
//	member → proof (32)
//
// A proof is HMAC-SHA256(key, label || role || both nonces || keying). The key is derived slowly from the
// token. The keying is exported from the TLS session, so a proof is worth nothing on another connection: a
// relay has one session on each side, with different keying. The role keeps a proof from being sent back to
// its maker. The member sends nothing that depends on the token before the command has proved itself. After
// that, both sides speak HTTP, encrypted.
package tokenproof

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"

	"rollcall/internal/slowkey"
)

const (
	// Protocol is the ALPN protocol, with the version of the proof.
	Protocol     = "rollcall-token-1"
	proofLabel   = "rollcall proof of the token, 1"
	keyingLabel  = "EXPORTER-rollcall-token-proof-1"
	keyPurpose   = "rollcall token of administrators, 1"
	nonceSize    = 32
	byMember     = "member"
	byCommand    = "command"
	handshakeTLS = 0x16 // the first byte of every TLS connection
)

// DeriveTokenKey returns the key of a token. It takes about a tenth of a second.
func DeriveTokenKey(token string) slowkey.Key { return slowkey.Derive(keyPurpose, token) }

// ErrNotProved is wrapped if the other end does not prove the token.
var ErrNotProved = errors.New("the other end does not prove that it has the token: another program listens at this " +
	"address, or the member has another token")

// errProtocol is the error of an end that does not prove tokens, such as a member that serves HTTPS.
var errProtocol = errors.New("it speaks another protocol over TLS; a member that serves HTTPS is named by https://")

// proofExchange is the state of one connection at both ends, except for the key.
type proofExchange struct {
	memberNonce, commandNonce [nonceSize]byte
	keyingMaterial            []byte
}

func (e *proofExchange) computeProof(key slowkey.Key, by string) (proof [sha256.Size]byte) {
	h := hmac.New(sha256.New, key[:])
	for _, part := range [][]byte{[]byte(proofLabel), []byte(by), e.memberNonce[:], e.commandNonce[:], e.keyingMaterial} {
		h.Write(part)
	}
	h.Sum(proof[:0])
	return proof
}

func newExchange(conn *tls.Conn) (e proofExchange, err error) {
	state := conn.ConnectionState()
	if state.NegotiatedProtocol != Protocol {
		return e, errProtocol
	}
	e.keyingMaterial, err = state.ExportKeyingMaterial(keyingLabel, nil, 32)
	return e, err
}

// ProveMutually proves the token to the member at the other end of conn, and returns the connection to continue with
// when the member has proved it, too. The caller has set a deadline, and closes conn if there is an error.
func ProveMutually(conn net.Conn, key slowkey.Key) (net.Conn, error) {
	private := tls.Client(conn, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{Protocol}, SessionTicketsDisabled: true,
		InsecureSkipVerify: true, // the proof shows who is there
	})
	answer, err := exchangeProofs(private, key)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNotProved, err)
	}
	if !answer {
		return nil, ErrNotProved
	}
	return private, nil
}

// exchangeProofs exchanges the proofs, and reports whether the member's is right.
func exchangeProofs(private *tls.Conn, key slowkey.Key) (right bool, err error) {
	if err := private.Handshake(); err != nil {
		if alert := (*net.OpError)(nil); errors.As(err, &alert) && alert.Op == "remote error" {
			// such as that no protocol is known
			err = fmt.Errorf("%w (%w)", errProtocol, err)
		}
		return false, err
	}
	e, err := newExchange(private)
	if err != nil {
		return false, err
	}
	if _, err := io.ReadFull(private, e.memberNonce[:]); err != nil {
		return false, err
	}
	_, _ = rand.Read(e.commandNonce[:]) // it never fails
	proof := e.computeProof(key, byCommand)
	if _, err := private.Write(append(e.commandNonce[:], proof[:]...)); err != nil {
		return false, err
	}
	if _, err := io.ReadFull(private, proof[:]); err != nil {
		return false, err
	}
	want := e.computeProof(key, byMember)
	return hmac.Equal(want[:], proof[:]), nil
}

// errProof is the member's error for a wrong proof.
var errProof = errors.New("tokenproof: the proof of the token is wrong")

// verifyAndProve is the member's side of ProveMutually.
func verifyAndProve(private *tls.Conn, key slowkey.Key) error {
	if err := private.Handshake(); err != nil {
		return err
	}
	e, err := newExchange(private)
	if err != nil {
		return err
	}
	_, _ = rand.Read(e.memberNonce[:]) // it never fails
	if _, err := private.Write(e.memberNonce[:]); err != nil {
		return err
	}
	var message [nonceSize + sha256.Size]byte
	if _, err := io.ReadFull(private, message[:]); err != nil {
		return err
	}
	copy(e.commandNonce[:], message[:])
	if want := e.computeProof(key, byCommand); !hmac.Equal(want[:], message[nonceSize:]) {
		return errProof
	}
	proof := e.computeProof(key, byMember)
	_, err = private.Write(proof[:])
	return err
}

// newBlankTLSConfig returns a member's TLS configuration. The certificate is blank, without even a time, because
// it is not checked.
func newBlankTLSConfig() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("tokenproof: make a key: %w", err)
	}
	blank := &x509.Certificate{SerialNumber: big.NewInt(1)}
	raw, err := x509.CreateCertificate(rand.Reader, blank, blank, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("tokenproof: make a certificate: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{Protocol}, SessionTicketsDisabled: true,
		Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}},
	}, nil
}
