package trust

import "fmt"

// Reason is the kind of a Refusal.
type Reason int

// The reasons. The other end learns none of them.
const (
	Stranger     Reason = iota // it speaks neither TLS nor a hello
	PlainHello                 // a plain hello, where none is taken
	BadHandshake               // TLS failed
	NoProof                    // the proof of the secret is wrong or missing
	OtherMember                // the proof is right, but names the wrong member
	Reasons                    // number of reasons
)

// Refusal is why the other end of a connection was refused.
type Refusal struct {
	Reason Reason
	err    error
}

func (r *Refusal) Error() string { return r.err.Error() }

// Unwrap returns what the refusal was made of.
func (r *Refusal) Unwrap() error { return r.err }

func refuse(why Reason, format string, args ...any) *Refusal {
	return &Refusal{why, fmt.Errorf(format, args...)}
}
