package proxy

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"rollcall/zk/jute"
)

// OpConnect is the Op of the first request of a connection, which opens a session or resumes it.
const OpConnect = "connect"

var opCloseSession = jute.OpCloseSession.String()

// Request is one request of the program. It has no data, and no passwords.
type Request struct {
	Session    int    `json:"session"`        // the number of the session in its run, from 1, in the order in which they are opened
	Op         string `json:"op"`             // ZooKeeper's name of the operation, or OpConnect
	Path       string `json:"path,omitempty"` // in a multi, that of the first operation; without a chroot of the proxy
	Occurrence int    `json:"occurrence"`     // among the session's requests with this operation and pattern, from 1
	InRun      int    `json:"inRun"`          // the same among the requests of all sessions
	Connection int    `json:"connection"`     // the number of the connection in its run, from 1
	Xid        int32  `json:"xid"`            // 0 for OpConnect
	SessionID  string `json:"sessionId,omitempty"`
	Opens      bool   `json:"opens,omitempty"` // a connect that opens a session
}

// Key returns the Key by which another run finds the request.
func (r Request) Key() Key {
	return Key{Session: r.Session, Op: r.Op, Pattern: patternOf(r.Path), Occurrence: r.Occurrence}
}

// anyKey returns a key that matches the request whichever session sends it.
func (r Request) anyKey() Key { return Key{Op: r.Op, Pattern: patternOf(r.Path), Occurrence: r.InRun} }

// Key identifies a request in every run of a program. Programs are not deterministic, so a key has no numbers of
// requests, connections or nodes.
type Key struct {
	Session    int    // 0: any
	Op         string // as in Request
	Pattern    string // the path, with a star for each sequence number and each random id
	Occurrence int    // of the operation and the pattern, in the session, or in the run if Session is 0
}

// matchesRequest reports whether the request is the key's.
func (k Key) matchesRequest(r Request) bool {
	if k.Session == 0 {
		return k == r.anyKey()
	}
	return k == r.Key()
}

// String returns the key as ParseKey reads it, such as "s1 create2 /lock/* #2".
func (k Key) String() string {
	session := "any"
	if k.Session > 0 {
		session = "s" + strconv.Itoa(k.Session)
	}
	words := []string{session, k.Op}
	if k.Pattern != "" {
		words = append(words, k.Pattern)
	}
	return strings.Join(append(words, "#"+strconv.Itoa(k.Occurrence)), " ")
}

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

var keyForm = regexp.MustCompile(`(?s)^(any|s([1-9]\d{0,5})) ([\w()-]+)(?: (/.*))? #([1-9]\d{0,8})$`)

// ParseKey parses the form of Key.String. The error shows that form.
func ParseKey(text string) (Key, error) {
	m := keyForm.FindStringSubmatch(text)
	if m == nil {
		return Key{}, fmt.Errorf(`%.200q names no request; it must be like "s1 create2 /lock/* #2": the session's number or `+
			`"any", the operation, the path with a star for each sequence number, and which of them it is`, text)
	}
	session, _ := strconv.Atoi(m[2]) // digits, or nothing for any
	occurrence, _ := strconv.Atoi(m[5])
	return Key{Session: session, Op: m[3], Pattern: m[4], Occurrence: occurrence}, nil
}

// varying matches the parts of a path that differ from run to run: UUIDs, random texts in base 32 as crypto/rand makes
// them, long hexadecimal numbers, and sequence numbers, which have ten digits or more.
var varying = regexp.MustCompile(`[A-Z2-7]{26}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?:0x)?[0-9a-fA-F]{12,}|\d{10,}`)

// patternOf returns the path with a star for each part that differs from run to run.
func patternOf(path string) string { return varying.ReplaceAllString(path, "*") }
