package differential

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rollcall/zk/jute"
)

// step is one thing that a client does. It is printed as a line of JSON without zero fields. A
// path, text or list that is left out is null on the wire.
type step struct {
	Slot int    `json:"c"`              // of the client; each has one session and one connection at a time
	With bool   `json:"with,omitempty"` // sent together with the step before, without waiting for its reply
	Do   string `json:"do"`             // the operation's name, or open, resume or drop

	Path    *text   `json:"path,omitempty"`
	Data    *text   `json:"data,omitempty"`
	ACL     *[]ace  `json:"acl,omitempty"`
	Flags   int32   `json:"flags,omitempty"`
	TTL     int64   `json:"ttl,omitempty"`
	Version int32   `json:"version,omitempty"`
	Watch   bool    `json:"watch,omitempty"`
	Kind    int32   `json:"kind,omitempty"` // addWatch's mode, or the type in checkWatches and removeWatches
	Scheme  *text   `json:"scheme,omitempty"`
	Since   string  `json:"since,omitempty"` // setWatches: the relative zxid; open, resume: the last zxid seen; one of the since names
	Lists   []paths `json:"lists,omitempty"` // for setWatches
	Multi   []step  `json:"multi,omitempty"`
	Cut     int     `json:"cut,omitempty"` // how many bytes are missing at the end of the record
	Code    int32   `json:"code,omitempty"`
	Member  int     `json:"member,omitempty"` // open, resume: the member, modulo the number of servers
	Secret  string  `json:"secret,omitempty"` // resume: the kind of wrong password
	Timeout int32   `json:"timeout,omitempty"`
}

// These are the values of step.Since.
const (
	sinceNothing = ""       // 0
	sinceSeen    = "seen"   // the last zxid that this client saw in a reply
	sinceBegin   = "begin"  // the zxid at the beginning of the sequence
	sinceFuture  = "future" // a zxid beyond all others
)

// top stands for the node below which a sequence works.
const top = "~"

// text is a string or bytes, which may be invalid UTF-8.
type text string

// MarshalText implements encoding.TextMarshaler.
func (t text) MarshalText() ([]byte, error) {
	q := strconv.QuoteToASCII(string(t))
	return []byte(strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *text) UnmarshalText(b []byte) error {
	s, err := strconv.Unquote(`"` + strings.ReplaceAll(string(b), `"`, `\"`) + `"`)
	*t = text(s)
	return err
}

func str(s string) *text { t := text(s); return &t }

// paths is one list of setWatches. Nil is null.
type paths []*text

// ace is an entry of an ACL.
type ace struct {
	Perms  int32 `json:"perms"`
	Scheme *text `json:"scheme,omitempty"`
	ID     *text `json:"id,omitempty"`
}

// watches reports whether the step sets a watch on path.
func (s step) watches(path *text) bool {
	same := func(p *text) bool { return p != nil && path != nil && *p == *path }
	return (s.Watch || s.Do == "addWatch") && same(s.Path) ||
		slices.ContainsFunc(s.Lists, func(list paths) bool { return slices.ContainsFunc(list, same) })
}

// String returns the step as JSON, which parse reads.
func (s step) String() string {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Sprintf("%+v: %v", s.Do, err)
	}
	return string(b)
}

// printSteps returns a sequence, one step per line.
func printSteps(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// parseSteps parses what printSteps returned. It ignores empty lines.
func parseSteps(text string) ([]step, error) {
	var steps []step
	for n, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		var s step
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// opByName maps the names that a step may use to operations.
var opByName = func() map[string]jute.Op {
	m := map[string]jute.Op{}
	for op := jute.Op(-11); op <= jute.OpWhoAmI; op++ {
		if name := op.String(); !strings.HasPrefix(name, "op(") {
			m[name] = op
		}
	}
	return m
}()

// unknown is the name of a step with an unknown operation, whose code is step.Code.
const unknown = "unknown"

func (s step) op() jute.Op {
	if s.Do == unknown {
		return jute.Op(s.Code)
	}
	return opByName[s.Do]
}

// place replaces the top node's placeholder in a path.
func place(t *text, at string) []byte {
	if t == nil {
		return nil
	}
	return []byte(strings.Replace(string(*t), top, at, 1))
}

func raw(t *text) []byte {
	if t == nil {
		return nil
	}
	return []byte(*t)
}

// record returns the bytes that the step sends after the request's header. zxid is the value for Since.
func (s step) record(at string, zxid int64) []byte {
	var b []byte
	switch path := place(s.Path, at); s.op() {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		b = s.create(path).Append(b)
	case jute.OpCreateTTL:
		b = jute.AppendInt64(s.create(path).Append(b), s.TTL)
	case jute.OpDelete:
		b = jute.DeleteRequest{Path: path, Version: s.Version}.Append(b)
	case jute.OpCheck:
		b = jute.CheckVersionRequest{Path: path, Version: s.Version}.Append(b)
	case jute.OpSetData:
		b = jute.SetDataRequest{Path: path, Data: raw(s.Data), Version: s.Version}.Append(b)
	case jute.OpSetACL:
		b = jute.SetACLRequest{Path: path, ACL: s.acl(), Version: s.Version}.Append(b)
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		b = jute.ExistsRequest{Path: path, Watch: s.Watch}.Append(b)
	case jute.OpGetACL, jute.OpSync, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber:
		b = jute.AppendBytes(b, path)
	case jute.OpAddWatch, jute.OpCheckWatches, jute.OpRemoveWatches:
		b = jute.AppendInt32(jute.AppendBytes(b, path), s.Kind)
	case jute.OpSetWatches, jute.OpSetWatches2:
		b = jute.AppendInt64(b, zxid)
		for _, list := range s.Lists {
			b = list.append(b, at)
		}
	case jute.OpAuth:
		b = jute.AuthPacket{Scheme: raw(s.Scheme), Auth: raw(s.Data)}.Append(b)
	case jute.OpMulti, jute.OpMultiRead:
		for _, sub := range s.Multi {
			b = jute.MultiHeader{Type: sub.op(), Err: -1}.Append(b)
			b = append(b, sub.record(at, zxid)...)
		}
		b = jute.AppendMultiEnd(b)
	case jute.OpReconfig:
		b = jute.ReconfigRequest{CurConfigID: -1}.Append(b)
	}
	return b[:max(0, len(b)-s.Cut)]
}

func (s step) create(path []byte) jute.CreateRequest {
	return jute.CreateRequest{Path: path, Data: raw(s.Data), ACL: s.acl(), Flags: jute.CreateMode(s.Flags)}
}

func (s step) acl() []jute.ACL {
	if s.ACL == nil {
		return nil
	}
	list := []jute.ACL{}
	for _, e := range *s.ACL {
		list = append(list, jute.ACL{Perms: jute.Perm(e.Perms), ID: jute.ID{Scheme: raw(e.Scheme), ID: raw(e.ID)}})
	}
	return list
}

func (p paths) append(b []byte, at string) []byte {
	if p == nil {
		return jute.AppendCount(b, -1)
	}
	b = jute.AppendCount(b, len(p))
	for _, path := range p {
		b = jute.AppendBytes(b, place(path, at))
	}
	return b
}

// xid returns the xid of the step's request, which is the n-th request on its connection.
func (s step) xid(n int32) int32 {
	switch s.op() {
	case jute.OpPing:
		return jute.XidPing
	case jute.OpAuth:
		return jute.XidAuth
	case jute.OpSetWatches, jute.OpSetWatches2:
		return jute.XidSetWatches
	}
	return n
}

// local reports whether the step concerns only the connection and sends no request.
func (s step) local() bool { return s.Do == "open" || s.Do == "resume" || s.Do == "drop" }
