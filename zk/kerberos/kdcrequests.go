package kerberos

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// A service gets tickets for other services with its keytab. First an InitialRequest gets a Granter, and that makes a ServiceRequest for
// each service (RFC 4120, sections 3.1 and 3.3). Both are messages alone: package credentials sends them. The client of gokrb5 is not
// used, because it allocates what the KDC's length names, takes no context, and indexes into replies without a check.

// The usages of keys in requests to a KDC, and the numbers of their parts.
const (
	usageTimestamp    = 1
	usageInitialReply = 3
	usageServiceReply = 8

	padataTimestamp = 2
	nameOfPrincipal = 1
	nameOfInstance  = 2
	grantingService = "krbtgt"
	tagKDCError     = 0x7e // the first byte of an error
)

// requestedLifetime is that of the tickets that are requested. KDCs give less by their own settings, 10 hours by default.
const requestedLifetime = 24 * time.Hour

// preferredTypes are the served encryption types in the order in which a client's key is chosen.
var preferredTypes = []int32{18, 17, 20, 19}

// requestConf has the settings of requests.
func requestConf() *config.Config {
	c := config.New()
	d := &c.LibDefaults
	d.NoAddresses, d.TicketLifetime, d.RenewLifetime = true, requestedLifetime, 0
	d.DefaultTktEnctypeIDs, d.DefaultTGSEnctypeIDs = preferredTypes, preferredTypes
	return c
}

func principalName(p Principal, kind int32) types.PrincipalName {
	return types.PrincipalName{NameType: kind, NameString: strings.Split(p.Name, "/")}
}

// InitialRequest is a request for a ticket of the KDC itself. Make one with NewInitialRequest.
type InitialRequest struct {
	Message []byte

	keys   *Keytab
	client Principal
	sent   messages.ASReq
}

// NewInitialRequest returns a request of a client with a key in the keytab. The client proves that it has the key by the time.
func NewInitialRequest(keys *Keytab, client Principal) (*InitialRequest, error) {
	r := &InitialRequest{keys: keys, client: client}
	if err := keys.Check(client); err != nil {
		return nil, err
	}
	var err error
	if r.sent, err = messages.NewASReqForTGT(client.Realm, requestConf(), principalName(client, nameOfPrincipal)); err != nil {
		return nil, fmt.Errorf("kerberos: the request: %w", err)
	}
	proof, err := r.proveKey()
	if err != nil {
		return nil, fmt.Errorf("kerberos: the request: %w", err)
	}
	r.sent.PAData = types.PADataSequence{{PADataType: padataTimestamp, PADataValue: proof}}
	r.Message, err = r.sent.Marshal()
	return r, err
}

// proveKey returns the time, encrypted with the client's newest key.
func (r *InitialRequest) proveKey() ([]byte, error) {
	text, err := types.GetPAEncTSEncAsnMarshalled()
	if err != nil {
		return nil, err
	}
	k, version := r.keys.newestKey(r.client)
	sealed, err := k.encrypt(text, usageTimestamp, int(version))
	if err != nil {
		return nil, err
	}
	return sealed.Marshal()
}

// newestKey returns a key of the newest version of a principal, which must have one. Of several, it is that of the first preferred
// type: the KDC may have no key of a type that only older versions have.
func (t *Keytab) newestKey(of Principal) (k key, version uint32) {
	for _, e := range t.entries {
		isPreferred := e.version > version || slices.Index(preferredTypes, e.key.id) < slices.Index(preferredTypes, k.id)
		if e.principal == of && e.version >= version && (k.value == nil || isPreferred) {
			k, version = e.key, e.version
		}
	}
	return k, version
}

// Take takes the KDC's reply. An error is of the KDC, or about its reply.
func (r *InitialRequest) Take(reply []byte) (g *Granter, err error) {
	defer catchPanic(&err)
	if err := errorOf(reply, r.client, Principal{grantingService + "/" + r.client.Realm, r.client.Realm}); err != nil {
		return nil, err
	}
	var got messages.ASRep
	if err := got.Unmarshal(reply); err != nil {
		return nil, faultf(BadToken, "the KDC's reply cannot be decoded: %v", err)
	}
	k, _, ok := r.keys.keyFor(r.client, got.EncPart.EType, got.EncPart.KVNO)
	if !ok {
		return nil, faultf(UnknownKey, "the KDC has encrypted its reply with %s, and the keytab has no such key of %s; add it",
			typeName(got.EncPart.EType), r.client)
	}
	part, err := openReply(got.EncPart, k, usageInitialReply)
	if err != nil {
		return nil, faultf(WrongKey, "the key of %s in the keytab does not decrypt the KDC's reply: %v; copy the newest keytab here", r.client, err)
	}
	if err := checkReply(part, r.sent.ReqBody.Nonce, got.KDCRepFields, r.client); err != nil {
		return nil, err
	}
	return &Granter{client: r.client, ticket: got.Ticket, session: part.Key}, nil
}

// openReply decrypts the encrypted part of a reply.
func openReply(sealed types.EncryptedData, k key, usage uint32) (part messages.EncKDCRepPart, err error) {
	text, err := k.decrypt(sealed, usage)
	if err != nil {
		return part, err
	}
	return part, part.Unmarshal(text)
}

// checkReply checks that a reply is to this request, and of this client.
func checkReply(part messages.EncKDCRepPart, nonce int, got messages.KDCRepFields, client Principal) error {
	if part.Nonce != nonce {
		return faultf(BadToken, "the KDC's reply is to another request")
	}
	if name := (Principal{joinName(got.CName), got.CRealm}); name != client {
		return faultf(WrongIdentity, "the KDC's reply is for %s; must be for %s", quoteShort(name.String()), client)
	}
	_, err := newKey(part.Key.KeyType, part.Key.KeyValue)
	return err
}

// Granter gets tickets for services. It is safe for concurrent use.
type Granter struct {
	client  Principal
	ticket  messages.Ticket // of the KDC
	session types.EncryptionKey
}

// ServiceRequest is a request for a ticket for one service.
type ServiceRequest struct {
	Message []byte

	granter *Granter
	service Principal
	sent    messages.TGSReq
}

// NewServiceRequest returns a request for a ticket for a service of the client's realm.
func (g *Granter) NewServiceRequest(service Principal) (r *ServiceRequest, err error) {
	defer catchPanic(&err) // it encrypts for a ticket that the KDC has sent
	if service.Realm != g.client.Realm {
		return nil, faultf(WrongRealm, "%s is of another realm than %s", service, g.client)
	}
	r = &ServiceRequest{granter: g, service: service}
	r.sent, err = messages.NewTGSReq(principalName(g.client, nameOfPrincipal), g.client.Realm, requestConf(), g.ticket, g.session,
		principalName(service, nameOfInstance), false)
	if err != nil {
		return nil, fmt.Errorf("kerberos: the request: %w", err)
	}
	r.Message, err = r.sent.Marshal()
	return r, err
}

// ServiceTicket is a ticket for a service, with the time for which the KDC has made it.
type ServiceTicket struct {
	Ticket
	Service     Principal
	Begin, Ends time.Time // by the KDC's clock
}

// Take takes the KDC's reply. An error is of the KDC, or about its reply.
func (r *ServiceRequest) Take(reply []byte) (t ServiceTicket, err error) {
	defer catchPanic(&err)
	if err := errorOf(reply, r.granter.client, r.service); err != nil {
		return t, err
	}
	var got messages.TGSRep
	if err := got.Unmarshal(reply); err != nil {
		return t, faultf(BadToken, "the KDC's reply cannot be decoded: %v", err)
	}
	session, err := newKey(r.granter.session.KeyType, r.granter.session.KeyValue)
	if err != nil {
		return t, err
	}
	part, err := openReply(got.EncPart, session, usageServiceReply)
	if err != nil {
		return t, faultf(WrongKey, "the KDC's reply cannot be decrypted: %v", err)
	}
	if err := checkReply(part, r.sent.ReqBody.Nonce, got.KDCRepFields, r.granter.client); err != nil {
		return t, err
	}
	if name := (Principal{joinName(part.SName), part.SRealm}); name != r.service {
		return t, faultf(WrongService, "the KDC's ticket is for %s; must be for %s", quoteShort(name.String()), r.service)
	}
	t.Begin, t.Ends = part.StartTime, part.EndTime
	if t.Begin.IsZero() {
		t.Begin = part.AuthTime
	}
	t.Service, t.SessionKey, t.Client, t.Realm = r.service, part.Key, principalName(r.granter.client, nameOfPrincipal), r.granter.client.Realm
	t.Encoded, err = got.Ticket.Marshal()
	return t, err
}

// The numbers of a KDC's errors that have a text of their own (RFC 4120, section 7.5.9).
const (
	unknownClient   = 6
	unknownService  = 7
	noEncryption    = 14
	clientRevoked   = 18
	keyExpired      = 23
	wrongClientKey  = 24
	clockDiffers    = 37
	maxKDCErrorText = 200
)

// errorOf returns the error that a KDC has sent in place of a reply, or nil.
func errorOf(reply []byte, client, service Principal) error {
	if !bytes.HasPrefix(reply, []byte{tagKDCError}) {
		return nil
	}
	var e messages.KRBError
	if err := e.Unmarshal(reply); err != nil {
		return faultf(BadToken, "the KDC's error cannot be decoded: %v", err)
	}
	switch e.ErrorCode {
	case unknownClient:
		return faultf(NoName, "the KDC has no principal %s; add it with addprinc of kadmin", client)
	case unknownService:
		return faultf(WrongService, "the KDC has no principal %s; add it with addprinc of kadmin", service)
	case noEncryption:
		return faultf(BadEncryption, "the KDC has no key with AES that %s and %s both have; make their keys again", client, service)
	case clientRevoked:
		return faultf(WrongIdentity, "the KDC has locked %s; unlock it with modprinc of kadmin", client)
	case keyExpired:
		return faultf(Expired, "the KDC has set an end to the key of %s, which is over; change it with modprinc of kadmin", client)
	case wrongClientKey:
		return faultf(WrongKey, "the KDC has another key of %s than the keytab; copy the newest keytab here", client)
	case clockDiffers:
		return faultf(ClockSkew, "the KDC's clock is at %s, and this one at %s; set the wrong one", e.STime.UTC().Format(time.RFC3339),
			time.Now().UTC().Format(time.RFC3339))
	}
	text := e.Error()
	return faultf(BadToken, "the KDC has sent an error: %s", quoteShort(text[:min(len(text), maxKDCErrorText)]))
}
