package kerberos

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Ticket is a ticket for a service, with what its client needs to use it.
type Ticket struct {
	Encoded    []byte // the message Ticket of RFC 4120, as the KDC has made it
	SessionKey types.EncryptionKey
	Client     types.PrincipalName
	Realm      string // of the client
}

// loginState is what the client waits for.
type loginState uint8

const (
	beginsLogin loginState = iota
	awaitsProof            // of the server
	awaitsOffer            // of security layers
	awaitsEnd
	loginIsOver
)

// Login is the client's side of one login. Make one with NewLogin. The server proves that it has the service's key, too.
type Login struct {
	ticket       Ticket
	session      key
	state        loginState
	sent         types.Authenticator
	wrapKey      key
	subkeyFlag   byte
	serverNumber uint64 // of the server's wrap token
}

// NewLogin returns a login with a ticket, which may serve for many logins.
func NewLogin(t Ticket) (*Login, error) {
	session, err := newKey(t.SessionKey.KeyType, t.SessionKey.KeyValue)
	if err != nil {
		return nil, err
	}
	return &Login{ticket: t, session: session}, nil
}

// Step takes the server's reply to the last token, nil at first, and returns the next token. If done, the server has accepted the login,
// and there is no next token. After an error the login is over, and every further step fails.
func (l *Login) Step(answer []byte) (token []byte, done bool, err error) {
	state := l.state
	l.state = loginIsOver
	switch {
	case state == loginIsOver:
		return nil, false, errOver
	case len(answer) > MaxToken:
		return nil, false, faultf(BadToken, "the server's token has %d bytes; must be at most %d", len(answer), MaxToken)
	case state == beginsLogin:
		token, err = l.request()
	case state == awaitsProof:
		err = l.checkProof(answer)
	case state == awaitsOffer:
		token, err = l.choose(answer)
	case len(answer) > 0:
		err = faultf(BadToken, "the server sends %d bytes after the login; must be none", len(answer))
	default:
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	l.state = state + 1
	return token, false, nil
}

// request returns the first token, which demands that the server proves itself.
func (l *Login) request() ([]byte, error) {
	now := time.Now().UTC()
	sum := binary.LittleEndian.AppendUint32(nil, bindingsSize)
	sum = append(sum, make([]byte, bindingsSize)...)
	sum = binary.LittleEndian.AppendUint32(sum, flagMutual|flagSequence|flagIntegrity)
	l.sent = types.Authenticator{
		AVNO: protocolVersion, CRealm: l.ticket.Realm, CName: l.ticket.Client,
		Cksum: types.Checksum{CksumType: checksumType, Checksum: sum},
		CTime: now.Truncate(time.Second), Cusec: now.Nanosecond() / 1000, SeqNumber: int64(rand.Uint32() >> 2),
		SubKey: l.session.newRandomKey().encoded(),
	}
	text, err := marshal(l.sent, tagAuthenticator)
	if err != nil {
		return nil, fmt.Errorf("kerberos: the authenticator: %w", err)
	}
	sealed, err := l.session.encrypt(text, usageAuthenticator, 0)
	if err != nil {
		return nil, fmt.Errorf("kerberos: the authenticator: %w", err)
	}
	options := types.NewKrbFlags()
	types.SetFlag(&options, optionMutualRequired)
	message, err := marshal(apReq{
		Version: protocolVersion, Type: tagAPReq, Options: options, Authenticator: sealed,
		Ticket: asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Tag: 3, Bytes: l.ticket.Encoded},
	}, tagAPReq)
	if err != nil {
		return nil, fmt.Errorf("kerberos: the request: %w", err)
	}
	return appendFramed(nil, tokenAPReq, message), nil
}

// checkProof checks the server's reply to the request.
func (l *Login) checkProof(token []byte) error {
	message, err := cutFrame(token, tokenAPRep)
	if err != nil {
		return err
	}
	var reply apRep
	if err := unmarshal(message, &reply, tagAPRep); err != nil {
		return faultf(BadToken, "the server's reply cannot be decoded: %v", err)
	}
	text, err := l.session.decrypt(reply.EncPart, usageAPRep)
	if err != nil {
		return faultf(BadToken, "the server does not prove that it has the service's key: %v", err)
	}
	var part encAPRepPart
	if err := unmarshal(text, &part, tagEncAPRep); err != nil {
		return faultf(BadToken, "the server's proof cannot be decoded: %v", err)
	}
	if !part.Time.Equal(l.sent.CTime) || part.Micros != l.sent.Cusec {
		return faultf(BadToken, "the server's proof is of another login")
	}
	own := l.sent.SubKey
	if part.Subkey.KeyType != 0 {
		own, l.subkeyFlag = part.Subkey, underAcceptorKey
	}
	l.serverNumber = uint64(part.Sequence) & sequenceMask
	l.wrapKey, err = newKey(own.KeyType, own.KeyValue)
	return err
}

// choose returns the client's choice: no security layer, and itself as the identity.
func (l *Login) choose(token []byte) ([]byte, error) {
	offer, err := unwrap(l.wrapKey, usageAcceptorWrap, fromAcceptor|l.subkeyFlag, l.serverNumber, token)
	if err != nil {
		return nil, err
	}
	if len(offer) != choiceSize || offer[0]&layerNone == 0 {
		return nil, faultf(BadToken, "the server offers the security layers %x; must be %d, none", offer, layerNone)
	}
	choice := append([]byte{layerNone, 0, 0, 0}, joinName(l.ticket.Client)+"@"+l.ticket.Realm...)
	return wrap(l.wrapKey, usageInitiatorWrap, l.subkeyFlag, uint64(l.sent.SeqNumber), choice)
}
