// Package kerberos has both sides of SASL with the mechanism GSSAPI and Kerberos 5 (RFC 4752, RFC 4121), as ZooKeeper's servers and
// clients use it.
//
// Acceptor is a service with its keytab, and Exchange the server's side of one client's login. Login is the client's side; the
// package zk/kerberos/credentials gets the ticket that it needs. Only authentication is negotiated: the messages after a login are
// neither signed nor encrypted.
//
// Tickets and authenticators are parsed here, within MaxToken. The ciphers are those of github.com/jcmturner/gokrb5, of which only
// the encryption types with AES are used. Nothing here puts a key into an error.
package kerberos

import "fmt"

const (
	// MaxToken is the longest token of the other side, in bytes. A ticket of Active Directory with a thousand groups has 16,000 bytes,
	// and Windows allows at most 65,535.
	MaxToken = 65_535
	// MaxName is the longest name of a principal, in bytes. Each transaction of a client carries its name.
	MaxName = 1 << 10
	// maxQuoted limits the bytes of a name of the other side in an error. Names are shorter.
	maxQuoted = 128
)

// Fault is a kind of failure of a client's login. An operator needs a different remedy for each.
type Fault uint8

const (
	BadToken      Fault = iota // no token of this mechanism, or not the one that must come now
	WrongRealm                 // a ticket of another realm than the service's
	WrongService               // a ticket for another service or host
	BadEncryption              // an encryption type that is not served
	UnknownKey                 // the keytab has no key of the version with which the ticket is encrypted
	WrongKey                   // the keytab's key does not decrypt the ticket
	NotYetValid                // the ticket is not valid yet
	Expired                    // the ticket has expired
	ClockSkew                  // the clocks of client and server differ too much
	Replayed                   // the token was used before
	TooManyLogins              // no room to remember one more token
	WrongIdentity              // the client tries to act as another
	NoName                     // no rule makes a name of the principal
	NumFaults
)

// String returns a word for the fault, as in logs.
func (f Fault) String() string {
	return [NumFaults]string{
		"bad token", "wrong realm", "wrong service", "bad encryption type", "unknown key version", "wrong key", "ticket not valid yet",
		"ticket expired", "clock skew", "replayed", "too many logins", "wrong identity", "no name for the principal",
	}[f]
}

// Error is the reason why a login failed. It is for the log of the server: clients only learn that the login failed.
type Error struct {
	Fault Fault
	Text  string
}

func (e *Error) Error() string { return "kerberos: " + e.Text }

func faultf(fault Fault, format string, args ...any) error {
	return &Error{Fault: fault, Text: fmt.Sprintf(format, args...)}
}

// quoteShort quotes a name of the other side for an error, and cuts it if it is long.
func quoteShort(text string) string {
	if len(text) > maxQuoted {
		return fmt.Sprintf("%q...", text[:maxQuoted])
	}
	return fmt.Sprintf("%q", text)
}
