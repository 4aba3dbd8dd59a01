package kerberos

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jcmturner/gokrb5/v8/types"
)

const (
	// DefaultClockSkew is the default of clockskew in krb5.conf.
	DefaultClockSkew = 5 * time.Minute
	// keytabInterval is the least time between two reads of the keytab. It is read when a client logs in, so that a new one is used by
	// the first login after it. Clients of a storm share one read.
	keytabInterval = 250 * time.Millisecond
)

// Config configures an Acceptor.
type Config struct {
	Service    Principal
	ReadKeytab func() ([]byte, error) // returns the content of the keytab; any goroutine may call it
	Names      Names                  // of clients
	ClockSkew  time.Duration          // 0: DefaultClockSkew
	// Log is called for a keytab that was replaced, with the error if the new one cannot be used and the keys before it stay. If it is
	// nil, nothing is reported.
	Log func(err error)
}

// Acceptor is a service that clients log in to. It is safe for concurrent use.
type Acceptor struct {
	cfg    Config
	replay *replayCache
	keytab atomic.Pointer[Keytab]

	reading  sync.Mutex // held while the keytab is read
	readAt   time.Time
	readSum  [sha256.Size]byte
	readFail string // the error of the last read, which is reported once
}

// NewAcceptor returns an acceptor with the keytab as it is now. It is an error if that has no key of the service.
func NewAcceptor(cfg Config) (*Acceptor, error) {
	if cfg.ClockSkew == 0 {
		cfg.ClockSkew = DefaultClockSkew
	}
	a := &Acceptor{cfg: cfg, replay: newReplayCache(cfg.ClockSkew)}
	a.reading.Lock()
	defer a.reading.Unlock()
	if _, err := a.readKeytab(); err != nil {
		return nil, err
	}
	return a, nil
}

// Service returns the principal of the service.
func (a *Acceptor) Service() Principal { return a.cfg.Service }

// readKeytab reads the keytab, and replaces the keys if its content has changed. The lock reading is held.
func (a *Acceptor) readKeytab() (changed bool, err error) {
	a.readAt = time.Now()
	content, err := a.cfg.ReadKeytab()
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(content)
	if sum == a.readSum {
		return false, nil
	}
	t, err := ParseKeytab(content)
	if err == nil {
		err = t.Check(a.cfg.Service)
	}
	if err != nil {
		return false, err
	}
	a.readSum = sum
	a.keytab.Store(t)
	return true, nil
}

// refreshKeytab reads the keytab again unless it was read less than keytabInterval ago. If the new one cannot be used, the keys stay.
// With wait, it waits until it may read; many that wait share one read. Otherwise it does not wait for another goroutine that reads.
func (a *Acceptor) refreshKeytab(wait bool) {
	if wait {
		a.reading.Lock()
		rest := time.Until(a.readAt.Add(keytabInterval))
		a.reading.Unlock()
		time.Sleep(rest)
		a.reading.Lock()
	} else if !a.reading.TryLock() {
		return
	}
	defer a.reading.Unlock()
	if time.Since(a.readAt) < keytabInterval {
		return
	}
	changed, err := a.readKeytab()
	text := ""
	if err != nil {
		text = err.Error()
	}
	report := a.cfg.Log != nil && (changed || text != a.readFail && text != "")
	if a.readFail = text; report {
		a.cfg.Log(err)
	}
}

// keyOf returns the key for a ticket. It may wait for keytabInterval, and for a read of the keytab.
func (a *Acceptor) keyOf(t ticket) (k key, exact bool, err error) {
	id, version := t.EncPart.EType, t.EncPart.KVNO
	if _, err := lookupType(id); err != nil {
		return key{}, false, err
	}
	a.refreshKeytab(false)
	k, exact, ok := a.keytab.Load().keyFor(a.cfg.Service, id, version)
	if !exact {
		a.refreshKeytab(true)
		k, exact, ok = a.keytab.Load().keyFor(a.cfg.Service, id, version)
	}
	if !ok {
		return key{}, false, faultf(UnknownKey, "the ticket is encrypted with %s, and the keytab has no such key of %s; add it", typeName(id), a.cfg.Service)
	}
	return k, exact, nil
}

// openTicket checks that a ticket is for this service, and decrypts it.
func (a *Acceptor) openTicket(t ticket) (part encTicketPart, err error) {
	switch service := a.cfg.Service; {
	case t.Realm != service.Realm:
		return part, faultf(WrongRealm, "the ticket is of the realm %s; must be of %s", quoteShort(t.Realm), service.Realm)
	case joinName(t.Service) != service.Name:
		return part, faultf(WrongService, "the ticket is for %s; must be for %s: the client connects by another name of this host, or has another server principal",
			quoteShort(joinName(t.Service)), service.Name)
	}
	k, exact, err := a.keyOf(t)
	if err != nil {
		return part, err
	}
	text, err := k.decrypt(t.EncPart, usageTicket)
	switch {
	case err != nil && !exact:
		return part, faultf(UnknownKey, "the ticket is encrypted with version %d of the key; the keytab has %s: copy the newest keytab here, or have the client get a new ticket",
			t.EncPart.KVNO, a.keytab.Load().versionsOf(a.cfg.Service, k.id))
	case err != nil:
		return part, faultf(WrongKey, "the keytab's key of version %d does not decrypt the ticket: the keytab is of another KDC, or of a principal that was made again",
			t.EncPart.KVNO)
	}
	if err := unmarshal(text, &part, tagEncTicket); err != nil {
		return part, faultf(BadToken, "the ticket's encrypted part cannot be decoded: %v", err)
	}
	return part, a.checkTimes(part)
}

// checkTimes checks that a ticket is valid now.
func (a *Acceptor) checkTimes(part encTicketPart) error {
	now, begins := time.Now(), part.StartTime
	if begins.IsZero() {
		begins = part.AuthTime
	}
	switch {
	case begins.Sub(now) > a.cfg.ClockSkew:
		return faultf(NotYetValid, "the ticket is valid from %s on, in %v", begins.UTC().Format(time.RFC3339), roundTime(begins.Sub(now)))
	case part.Flags.At(ticketFlagInvalid) != 0:
		return faultf(NotYetValid, "the ticket is postdated, and the KDC has not validated it")
	case now.Sub(part.EndTime) > a.cfg.ClockSkew:
		return faultf(Expired, "the ticket has expired %v ago, at %s; the client must get a new one", roundTime(now.Sub(part.EndTime)),
			part.EndTime.UTC().Format(time.RFC3339))
	}
	return nil
}

func roundTime(d time.Duration) time.Duration { return d.Round(time.Second) }

// The flags of a client, in the checksum of its authenticator (RFC 4121, section 4.1.1).
const (
	checksumType  = 0x8003
	checksumSize  = 24 // without a delegated credential and extensions
	bindingsSize  = 16
	flagMutual    = 1 << 1
	flagSequence  = 1 << 3
	flagIntegrity = 1 << 5
	flagDCE       = 1 << 12
	sequenceMask  = 1<<32 - 1 // a client may send a negative number
)

// accepted is what a request of a client has established.
type accepted struct {
	principal string
	context   key // of wrap tokens before an acceptor's subkey
	session   key
	mutual    bool
	sequence  uint64 // of the client's first wrap token
	time      time.Time
	micros    int
	subkey    key    // the client's; of size 0: none
	sealed    []byte // the encrypted authenticator, which no other request has
}

// accept checks a client's request. It does not check that the request is used once.
func (a *Acceptor) accept(message []byte) (c accepted, err error) {
	request, t, err := parseAPReq(message)
	if err != nil {
		return c, err
	}
	if request.Options.At(optionUseSessionKey) != 0 {
		return c, faultf(BadToken, "the ticket is encrypted with a session key (user to user); must be with the service's key")
	}
	part, err := a.openTicket(t)
	if err != nil {
		return c, err
	}
	if c.session, err = newKey(part.Key.KeyType, part.Key.KeyValue); err != nil {
		return c, err
	}
	auth, err := openAuthenticator(c.session, request.Authenticator)
	if err != nil {
		return c, err
	}
	// Both names are checked, because only the ticket's are those that the KDC has proved.
	if auth.CRealm != part.ClientRealm || joinName(auth.CName) != joinName(part.Client) {
		return c, faultf(BadToken, "the authenticator is of %s, and the ticket of %s", quoteShort(joinName(auth.CName)+"@"+auth.CRealm),
			quoteShort(joinName(part.Client)+"@"+part.ClientRealm))
	}
	if c.principal, err = principalText(part.Client, part.ClientRealm); err != nil {
		return c, err
	}
	if err := c.take(auth); err != nil {
		return c, err
	}
	c.sealed = request.Authenticator.Cipher
	return c, a.checkClock(auth)
}

func openAuthenticator(session key, encrypted types.EncryptedData) (auth types.Authenticator, err error) {
	text, err := session.decrypt(encrypted, usageAuthenticator)
	if err != nil {
		return auth, faultf(BadToken, "the authenticator cannot be decrypted with the ticket's key: %v", err)
	}
	if err := unmarshal(text, &auth, tagAuthenticator); err != nil {
		return auth, faultf(BadToken, "the authenticator cannot be decoded: %v", err)
	}
	if auth.AVNO != protocolVersion {
		return auth, faultf(BadToken, "the authenticator has version %d; must be %d", auth.AVNO, protocolVersion)
	}
	return auth, nil
}

// take takes the flags, the sequence number and the subkey of an authenticator. Its channel bindings and a delegated credential are
// ignored, as Java does.
func (c *accepted) take(auth types.Authenticator) (err error) {
	sum := auth.Cksum.Checksum
	if auth.Cksum.CksumType != checksumType || len(sum) < checksumSize || binary.LittleEndian.Uint32(sum) != bindingsSize {
		return faultf(BadToken, "the authenticator has no checksum of GSSAPI: type %#x, %d bytes", auth.Cksum.CksumType, len(sum))
	}
	flags := binary.LittleEndian.Uint32(sum[checksumSize-4:])
	if flags&flagDCE != 0 {
		return faultf(BadToken, "the client wants a login of three tokens (DCE); must be that of RFC 4121")
	}
	c.mutual = flags&flagMutual != 0
	c.context = c.session
	if auth.SubKey.KeyType != 0 {
		if c.subkey, err = newKey(auth.SubKey.KeyType, auth.SubKey.KeyValue); err != nil {
			return err
		}
		c.context = c.subkey
	}
	c.sequence, c.time, c.micros = uint64(auth.SeqNumber)&sequenceMask, auth.CTime, auth.Cusec
	return nil
}

// checkClock checks the time of an authenticator.
func (a *Acceptor) checkClock(auth types.Authenticator) error {
	now := time.Now()
	ahead := auth.CTime.Add(time.Duration(auth.Cusec) * time.Microsecond).Sub(now)
	if auth.Cusec < 0 || auth.Cusec > 999_999 {
		return faultf(BadToken, "the authenticator has a time of %d µs", auth.Cusec)
	}
	if ahead.Abs() > a.cfg.ClockSkew {
		direction := "behind"
		if ahead > 0 {
			direction = "ahead of"
		}
		return faultf(ClockSkew, "the client's clock is %v %s this one; must be within %v (clockskew in krb5.conf)", roundTime(ahead.Abs()),
			direction, a.cfg.ClockSkew)
	}
	return nil
}

// reply returns the proof that the service has decrypted the ticket, with a new key for wrap tokens. That key makes every token of the
// client that follows worthless for another login.
func (c *accepted) reply() (message []byte, subkey key, sequence uint64, err error) {
	subkey, sequence = c.context.newRandomKey(), uint64(rand.Uint32()>>2) // of 30 bits, as others do, which no implementation takes for negative
	text, err := marshal(encAPRepPart{Time: c.time, Micros: c.micros, Subkey: subkey.encoded(), Sequence: int64(sequence)}, tagEncAPRep)
	if err != nil {
		return nil, key{}, 0, fmt.Errorf("kerberos: the reply: %w", err)
	}
	sealed, err := c.session.encrypt(text, usageAPRep, 0)
	if err != nil {
		return nil, key{}, 0, fmt.Errorf("kerberos: the reply: %w", err)
	}
	message, err = marshal(apRep{Version: protocolVersion, Type: tagAPRep, EncPart: sealed}, tagAPRep)
	return message, subkey, sequence, err
}

// errOver is the error of a step after the last one.
var errOver = errors.New("kerberos: the exchange is over; a connection can log in once")
