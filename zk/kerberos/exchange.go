package kerberos

import (
	"slices"
	"strings"
	"time"
)

// The first byte of the server's offer and of the client's choice (RFC 4752): bits of security layers.
const layerNone = 1

// choiceSize is the length of an offer, and of a choice without an identity: the layer, and 3 bytes with the longest message, which is
// 0 if there is no layer.
const choiceSize = 4

// exchangeState is what the server waits for.
type exchangeState uint8

const (
	awaitsRequest exchangeState = iota
	awaitsEmpty                 // the client's reply to the server's proof
	awaitsChoice                // of a security layer
	isOver
)

// Exchange is the server's side of one login. Make one with Acceptor.NewExchange.
type Exchange struct {
	acceptor *Acceptor
	state    exchangeState

	client   accepted
	wrapKey  key
	subkeyOf byte   // underAcceptorKey if wrapKey is the acceptor's
	sequence uint64 // of the server's wrap token
	userName string // "" before the login
}

// NewExchange returns an exchange before the client's first token.
func (a *Acceptor) NewExchange() *Exchange { return &Exchange{acceptor: a} }

// UserName returns the name of the client that has logged in, or "".
func (x *Exchange) UserName() string { return x.userName }

// Step takes a token of the client and returns the server's reply. done reports whether the client has logged in. After an error the
// exchange is over, and every further step fails. The error is for the log of the server: it is an *Error, unless the exchange was over.
//
// It may wait for a fraction of a second, and for a read of the keytab.
func (x *Exchange) Step(token []byte) (answer []byte, done bool, err error) {
	state := x.state
	x.state = isOver
	// The ciphers and the parser are a library that has not been kept since 2023. What strangers send is bounded, and too short
	// ciphertexts do not reach it, but an index that it misses must not end a member that serves others. Nothing is shared with the
	// exchange, which is over then, but the acceptor's keys, which are read, and its cache, which the library does not see.
	defer func() {
		if p := recover(); p != nil {
			x.state, answer, done = isOver, nil, false
			err = faultf(BadToken, "the token cannot be decoded: %v", p)
		}
	}()
	switch {
	case state == isOver:
		return nil, false, errOver
	case len(token) > MaxToken:
		return nil, false, faultf(BadToken, "a token of %d bytes; must be at most %d", len(token), MaxToken)
	case state == awaitsRequest:
		answer, err = x.takeRequest(token)
	case state == awaitsEmpty:
		if len(token) > 0 {
			return nil, false, faultf(BadToken, "a token of %d bytes; must be empty before the offer of security layers", len(token))
		}
		answer, err = x.offer()
	default:
		err = x.takeChoice(token)
		return nil, err == nil, err
	}
	return answer, false, err
}

// takeRequest takes the client's first token.
func (x *Exchange) takeRequest(token []byte) (answer []byte, err error) {
	if len(token) == 0 || token[0] != frameTag {
		return nil, faultf(BadToken, "the client's first token is not of GSSAPI, so it uses another mechanism; only Kerberos is served")
	}
	message, err := cutFrame(token, tokenAPReq)
	if err != nil {
		return nil, err
	}
	if x.client, err = x.acceptor.accept(message); err != nil {
		return nil, err
	}
	// Without a proof there is no other sequence number than the client's, as in Java and Windows.
	x.wrapKey, x.sequence = x.client.context, x.client.sequence
	if !x.client.mutual {
		if err := x.acceptor.replay.add(x.client.principal, x.client.sealed, time.Now()); err != nil {
			return nil, err
		}
		return x.offer()
	}
	reply, subkey, sequence, err := x.client.reply()
	if err != nil {
		return nil, err
	}
	x.wrapKey, x.sequence, x.subkeyOf, x.state = subkey, sequence, underAcceptorKey, awaitsEmpty
	return appendFramed(nil, tokenAPRep, reply), nil
}

// offer returns the server's offer of security layers, of which there is none.
func (x *Exchange) offer() ([]byte, error) {
	answer, err := wrap(x.wrapKey, usageAcceptorWrap, fromAcceptor|x.subkeyOf, x.sequence, []byte{layerNone, 0, 0, 0})
	if err == nil {
		x.state = awaitsChoice
	}
	return answer, err
}

// takeChoice takes the client's choice of a layer, and the identity as which it wants to act.
func (x *Exchange) takeChoice(token []byte) error {
	choice, err := unwrap(x.wrapKey, usageInitiatorWrap, x.subkeyOf, x.client.sequence, token)
	if err != nil {
		return err
	}
	if len(choice) < choiceSize || choice[0] != layerNone {
		return faultf(BadToken, "the client chooses the security layer %x; must be %d, none", choice[:min(len(choice), choiceSize)], layerNone)
	}
	name, err := x.acceptor.cfg.Names.NameOf(x.client.principal)
	if err != nil {
		return err
	}
	if wanted := string(choice[choiceSize:]); !isSameIdentity(wanted, x.client.principal, name) {
		return faultf(WrongIdentity, "%s tries to act as %s; a client can act only as itself", quoteShort(x.client.principal), quoteShort(wanted))
	}
	x.userName = name
	return nil
}

// isSameIdentity reports whether an identity that a client wants to have is its own: none, the principal with or without host and realm,
// or the name that the service gives it.
func isSameIdentity(wanted, principal, name string) bool {
	withoutRealm, _, _ := strings.Cut(principal, "@")
	withoutHost, _, _ := strings.Cut(withoutRealm, "/")
	return slices.Contains([]string{"", principal, withoutRealm, withoutHost, name}, wanted)
}
