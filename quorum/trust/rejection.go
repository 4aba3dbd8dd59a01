package trust

import "fmt"

// Reason is the kind of a Rejection.
type Reason int

// The reasons. The other end learns none of them.
const (
	UnknownProtocol Reason = iota // it speaks neither TLS nor a hello
	PlainHello                    // a plain hello, where none is taken
	BadHandshake                  // TLS failed
	NoProof                       // the proof of the secret is wrong or missing
	OtherMember                   // the proof is right, but names the wrong member
	// BadTicket is the first of the reasons for which a ticket of Kerberos is rejected. The fault (kerberos.Fault) is
	// added to it.
	BadTicket
)

// Rejection is the error for a rejected connection.
type Rejection struct {
	Reason Reason
	err    error
}

func (r *Rejection) Error() string { return r.err.Error() }

func (r *Rejection) Unwrap() error { return r.err }

func newRejection(reason Reason, format string, args ...any) *Rejection {
	return &Rejection{reason, fmt.Errorf(format, args...)}
}
