package proxy

import (
	"fmt"
	"slices"
	"strings"
)

// Fault happens to a program at one of its requests.
type Fault string

// These are all faults, in the order in which a survey tries them.
const (
	// Before breaks the connection before the request is carried out. Earlier requests on the connection get their
	// replies first.
	Before Fault = "before"
	// After breaks the connection in place of the reply. The request is carried out, and the program does not know.
	After Fault = "after"
	// Expire ends the session before the request is carried out, and then breaks the connection.
	Expire Fault = "expire"
	// Move breaks the connection after the reply. The next connections go to another server.
	Move Fault = "move"
	// Late holds the reply, and everything that follows it on the connection, for the session's timeout. Requests and
	// pings still reach the server, so the session lives.
	Late Fault = "late"
	// Pause stops the program when it has sent the request, until the server has ended the session. The reply is on
	// its way by then: the program continues with it as if no time had passed.
	Pause Fault = "pause"
)

// Faults returns all faults.
func Faults() []Fault { return []Fault{Before, After, Expire, Move, Late, Pause} }

// meanings says in a few words what each fault is, for reports and the help.
var meanings = map[Fault]string{
	Before: "the connection breaks before the request is carried out",
	After:  "the request is carried out, and the connection breaks in place of its reply",
	Expire: "the session ends before the request is carried out",
	Move:   "the connection breaks after the reply, and the next one goes to another server",
	Late:   "the reply, and everything after it on the connection, comes a session timeout later",
	Pause:  "the program is stopped at the request until its session has ended, and then continues",
}

// Meaning describes the fault in one sentence.
func (f Fault) Meaning() string { return meanings[f] }

// ParseFaults reads a list of faults with commas between them. It returns them in the order of Faults. The error names
// the word that is no fault.
func ParseFaults(text string) ([]Fault, error) {
	given := map[Fault]bool{}
	for word := range strings.SplitSeq(text, ",") {
		fault := Fault(strings.TrimSpace(word))
		if !slices.Contains(Faults(), fault) {
			return nil, fmt.Errorf("%.40q is no fault; there are %s", word, JoinFaults(Faults()))
		}
		given[fault] = true
	}
	return slices.DeleteFunc(Faults(), func(f Fault) bool { return !given[f] }), nil
}

// JoinFaults returns a list of faults as ParseFaults reads it.
func JoinFaults(faults []Fault) string {
	words := make([]string, len(faults))
	for i, f := range faults {
		words[i] = string(f)
	}
	return strings.Join(words, ",")
}

// impossibleReason returns the reason why a fault cannot happen at a request, or "" if it can.
func impossibleReason(f Fault, op string, opens bool, servers int) string {
	switch {
	case f == Move && servers < 2:
		return "there is only one server"
	case (f == Move || f == Pause) && op == opCloseSession:
		return "the session has ended when closeSession is answered"
	case (f == Expire || f == Pause) && op == OpConnect && opens:
		return "there is no session yet"
	}
	return ""
}
