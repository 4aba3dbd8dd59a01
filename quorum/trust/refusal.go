package trust

import "fmt"

// Reason is the kind of a Refusal.
type Reason int

// The reasons. The other end learns none of them.
const (
	UnknownProtocol Reason = iota // it speaks neither TLS nor a hello
	PlainHello                    // a plain hello, where none is taken
	BadHandshake                  // TLS failed
	NoProof                       // the proof of the secret is wrong or missing
	OtherMember                   // the proof is right, but names the wrong member
	ReasonCount                   // number of reasons
)

// Rejection is why the other end of a connection was refused.
type Rejection struct {
	Reason Reason
	err    error
}

func (r *Rejection) Error() string { return r.err.Error() }

// Unwrap returns what the refusal was made of.
func (r *Rejection) Unwrap() error { return r.err }

func reject(why Reason, format string, args ...any) *Rejection {
	return &Rejection{why, fmt.Errorf(format, args...)}
}
