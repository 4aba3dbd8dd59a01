package kerberos

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"slices"
)

// Two services authenticate each other with one request and one reply (RFC 4120, section 3.2), in the frames of GSSAPI:
//
//	dialer → AP-REQ with a new subkey, which demands a reply
//	dialed → AP-REP with another new subkey
//
// Both ends make a PeerKey of the two subkeys. Only they can: a subkey is encrypted with the ticket's session key, which the KDC has
// given to the dialer alone, and to the dialed side in a ticket that only its keytab decrypts.
//
// The caller must have both ends prove that they have the PeerKey, over a channel to which the proof is bound. Then a request that was
// recorded is useless to others: they get a reply that they cannot decrypt, so they never have the key of that connection. No
// request has to be remembered.

// peerKeyPurpose separates peer keys from all other keys made of subkeys.
const peerKeyPurpose = "rollcall key of two peers by Kerberos, 1"

// PeerKey is the key of one connection, which only its two ends have.
type PeerKey [32]byte

// String keeps the key out of texts and logs.
func (PeerKey) String() string { return "(a key)" }

// GoString does the same for the format %#v.
func (PeerKey) GoString() string { return "(a key)" }

func newPeerKey(dialer, dialed key) (k PeerKey, err error) {
	value, err := hkdf.Key(sha256.New, slices.Concat(dialer.value, dialed.value), nil, peerKeyPurpose, len(k))
	if err != nil {
		return k, fmt.Errorf("kerberos: the key of the connection: %w", err)
	}
	return PeerKey(value), nil
}

// AcceptPeer checks the request of a peer, and returns the reply to it, the principal of the peer, and the key of the connection. The
// peer has proved nothing before it proves that it has the key. An error is for the log of this side: it is an *Error if the peer has
// caused it.
//
// AcceptPeer may wait for a fraction of a second, and for a read of the keytab.
func (a *Acceptor) AcceptPeer(token []byte) (reply []byte, peer Principal, key PeerKey, err error) {
	defer catchPanic(&err)
	if len(token) > MaxToken {
		return nil, peer, key, faultf(BadToken, "a token of %d bytes; must be at most %d", len(token), MaxToken)
	}
	message, err := cutFrame(token, tokenAPReq)
	if err != nil {
		return nil, peer, key, err
	}
	request, err := a.accept(message)
	if err != nil {
		return nil, peer, key, err
	}
	if request.subkey.value == nil || !request.mutual {
		return nil, peer, key, faultf(BadToken, "the request has no subkey, or demands no reply; must have both")
	}
	message, subkey, _, err := request.reply()
	if err != nil {
		return nil, peer, key, err
	}
	if key, err = newPeerKey(request.subkey, subkey); err != nil {
		return nil, peer, key, err
	}
	peer, err = ParsePrincipal(request.principal, "")
	return appendFramed(nil, tokenAPRep, message), peer, key, err
}

// catchPanic makes an error of a panic of the library, as Exchange.Step does.
func catchPanic(err *error) {
	if p := recover(); p != nil {
		*err = faultf(BadToken, "the message cannot be decoded: %v", p)
	}
}

// PeerRequest is the dialer's side. Make one with NewPeerRequest.
type PeerRequest struct{ login *Login }

// NewPeerRequest returns a request with a ticket for the dialed side, and its token.
func NewPeerRequest(t Ticket) (r *PeerRequest, token []byte, err error) {
	login, err := NewLogin(t)
	if err != nil {
		return nil, nil, err
	}
	token, err = login.request()
	return &PeerRequest{login}, token, err
}

// TakeReply checks the reply of the dialed side, which proves that it can decrypt the ticket, and returns the key of the connection.
func (r *PeerRequest) TakeReply(token []byte) (key PeerKey, err error) {
	defer catchPanic(&err)
	if len(token) > MaxToken {
		return key, faultf(BadToken, "the reply has %d bytes; must be at most %d", len(token), MaxToken)
	}
	if err := r.login.checkProof(token); err != nil {
		return key, err
	}
	if r.login.subkeyFlag == 0 {
		return key, faultf(BadToken, "the reply has no subkey")
	}
	own, err := newKey(r.login.sent.SubKey.KeyType, r.login.sent.SubKey.KeyValue)
	if err != nil {
		return key, err
	}
	return newPeerKey(own, r.login.wrapKey)
}
