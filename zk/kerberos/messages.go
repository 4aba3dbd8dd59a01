package kerberos

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/types"
)

// The tags of messages (RFC 4120, section 5.10). Some are also the type that the message itself names.
const (
	tagTicket        = 1
	tagAuthenticator = 2
	tagEncTicket     = 3
	tagAPReq         = 14
	tagAPRep         = 15
	tagEncAPRep      = 27
)

// protocolVersion is that of all messages.
const protocolVersion = 5

// The types of a message are those of gokrb5, whose package messages would also parse what is in a ticket for Windows.
type (
	apReq struct {
		Version       int                 `asn1:"explicit,tag:0"`
		Type          int                 `asn1:"explicit,tag:1"`
		Options       asn1.BitString      `asn1:"explicit,tag:2"`
		Ticket        asn1.RawValue       `asn1:"explicit,tag:3"`
		Authenticator types.EncryptedData `asn1:"explicit,tag:4"`
	}
	ticket struct {
		Version int                 `asn1:"explicit,tag:0"`
		Realm   string              `asn1:"generalstring,explicit,tag:1"`
		Service types.PrincipalName `asn1:"explicit,tag:2"`
		EncPart types.EncryptedData `asn1:"explicit,tag:3"`
	}
	encTicketPart struct {
		Flags             asn1.BitString          `asn1:"explicit,tag:0"`
		Key               types.EncryptionKey     `asn1:"explicit,tag:1"`
		ClientRealm       string                  `asn1:"generalstring,explicit,tag:2"`
		Client            types.PrincipalName     `asn1:"explicit,tag:3"`
		Transited         transitedEncoding       `asn1:"explicit,tag:4"`
		AuthTime          time.Time               `asn1:"generalized,explicit,tag:5"`
		StartTime         time.Time               `asn1:"generalized,explicit,optional,tag:6"`
		EndTime           time.Time               `asn1:"generalized,explicit,tag:7"`
		RenewTill         time.Time               `asn1:"generalized,explicit,optional,tag:8"`
		Addresses         types.HostAddresses     `asn1:"explicit,optional,tag:9"`
		AuthorizationData types.AuthorizationData `asn1:"explicit,optional,tag:10"`
	}
	transitedEncoding struct {
		Type     int32  `asn1:"explicit,tag:0"`
		Contents []byte `asn1:"explicit,tag:1"`
	}
	apRep struct {
		Version int                 `asn1:"explicit,tag:0"`
		Type    int                 `asn1:"explicit,tag:1"`
		EncPart types.EncryptedData `asn1:"explicit,tag:2"`
	}
	encAPRepPart struct {
		Time     time.Time           `asn1:"generalized,explicit,tag:0"`
		Micros   int                 `asn1:"explicit,tag:1"`
		Subkey   types.EncryptionKey `asn1:"optional,explicit,tag:2"`
		Sequence int64               `asn1:"optional,explicit,tag:3"`
	}
)

// The options of an AP-REQ, as bits of a BIT STRING.
const (
	optionUseSessionKey  = 1
	optionMutualRequired = 2
)

// ticketFlagInvalid is a flag of a ticket that a KDC must validate first.
const ticketFlagInvalid = 7

// unmarshal parses a message with an application tag, which must be all of data.
func unmarshal(data []byte, message any, tag int) error {
	rest, err := asn1.UnmarshalWithParams(data, message, fmt.Sprintf("application,explicit,tag:%d", tag))
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes after the message", len(rest))
	}
	return err
}

// marshal returns a message with an application tag.
func marshal(message any, tag int) ([]byte, error) {
	body, err := asn1.Marshal(message)
	if err != nil {
		return nil, err
	}
	return append(appendTag(nil, byte(tag), len(body)), body...), nil
}

// appendTag appends an application tag and a length.
func appendTag(b []byte, tag byte, length int) []byte {
	const application, constructed = 0x40, 0x20
	b = append(b, application|constructed|tag)
	if length < 0x80 {
		return append(b, byte(length))
	}
	size := (bits.Len(uint(length)) + 7) / 8
	b = append(b, 0x80|byte(size))
	for i := size - 1; i >= 0; i-- {
		b = append(b, byte(length>>(8*i)))
	}
	return b
}

// parseAPReq parses a request of the client and the ticket in it.
func parseAPReq(message []byte) (request apReq, t ticket, err error) {
	if err := unmarshal(message, &request, tagAPReq); err != nil {
		return request, t, faultf(BadToken, "the request cannot be decoded: %v", err)
	}
	if request.Version != protocolVersion || request.Type != tagAPReq {
		return request, t, faultf(BadToken, "the request has version %d and type %d; must be %d and %d", request.Version, request.Type,
			protocolVersion, tagAPReq)
	}
	if err := unmarshal(request.Ticket.Bytes, &t, tagTicket); err != nil {
		return request, t, faultf(BadToken, "the ticket cannot be decoded: %v", err)
	}
	if t.Version != protocolVersion {
		return request, t, faultf(BadToken, "the ticket has version %d; must be %d", t.Version, protocolVersion)
	}
	return request, t, nil
}

// joinName returns a principal as a name, without its realm.
func joinName(n types.PrincipalName) string { return strings.Join(n.NameString, "/") }

// principalText returns the name of a client's principal with its realm. It is an error if the text could also be that of another
// principal, or if ACLs cannot name it: a slash or an at sign within a part, or more than two parts.
func principalText(n types.PrincipalName, realm string) (string, error) {
	text := joinName(n) + "@" + realm
	for _, part := range append([]string{realm}, n.NameString...) {
		if strings.ContainsAny(part, "/@\\") || strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
			return "", faultf(NoName, "the client's principal %s has a part with a slash, an at sign, a backslash or a control character", quoteShort(text))
		}
	}
	switch {
	case len(n.NameString) == 0 || len(n.NameString) > 2 || n.NameString[0] == "" || realm == "":
		return "", faultf(NoName, "the client's principal %s has %d parts and a realm; must be a name, or a service and a host, with a realm",
			quoteShort(text), len(n.NameString))
	case len(text) > MaxName:
		return "", faultf(NoName, "the client's principal has %d bytes; must be at most %d", len(text), MaxName)
	}
	return text, nil
}
