package differential

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rollcall/zk/jute"
)

// kind is the kind of a line.
type kind string

const (
	event     kind = "event"
	reply     kind = "reply"
	connected kind = "connected" // a handshake that was granted
	refused   kind = "refused"   // a handshake that was answered with zeroes
	closed    kind = "closed"    // the server closed the connection
	open      kind = "open"      // the server did not close the connection, though it should have
	nowhere   kind = "nowhere"   // the slot has no connection to send on
	silence   kind = "silence"   // nothing arrived in time
	found     kind = "found"     // a node, when the sequence was over
)

// line is one thing that a server sent, or that was observed about it.
type line struct {
	step int // the step that it belongs to; an event belongs to the step whose reply follows it
	slot int
	kind kind
	code jute.Code // in a reply
	typ  jute.EventType
	path string // in an event
	zxid int64  // in the header
	body []piece
}

// piece is one value in a line: a zxid or a text.
type piece struct {
	name string
	text string
	zxid int64 // if name begins with z:
}

const zxidMark = "z:"

func (l line) print(rank func(int64) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %d: %s", l.slot, l.kind)
	switch l.kind {
	case event:
		fmt.Fprintf(&b, " %v(%s) zxid %s", l.typ, l.path, rank(l.zxid))
	case found:
		fmt.Fprintf(&b, " %d", l.code)
	case reply:
		fmt.Fprintf(&b, " %d zxid %s", l.code, rank(l.zxid))
	}
	for _, p := range l.body {
		name, isZxid := strings.CutPrefix(p.name, zxidMark)
		if isZxid {
			p.text = rank(p.zxid)
		}
		fmt.Fprintf(&b, " %s=%s", name, p.text)
	}
	return b.String()
}

// ranker returns a function that prints a zxid as its rank among those in lines.
func ranker(lines []line) func(int64) string {
	var all []int64
	for _, l := range lines {
		all = append(all, l.zxid)
		for _, p := range l.body {
			all = append(all, p.zxid)
		}
	}
	all = slices.DeleteFunc(all, func(z int64) bool { return z <= 0 })
	slices.Sort(all)
	all = slices.Compact(all)
	return func(z int64) string {
		if z <= 0 {
			return strconv.FormatInt(z, 10)
		}
		at, _ := slices.BinarySearch(all, z)
		return "#" + strconv.Itoa(at+1)
	}
}

// book has the facts about the sequence so far that decoding needs.
type book struct {
	top      string
	began    int64 // ms since 1970
	now      func() int64
	sessions map[jute.SessionID]string
	times    map[int64]int64 // by zxid
}

// reply decodes the record behind the header of a reply to s.
func (k *book) reply(s step, code jute.Code, body []byte) []piece {
	d := jute.NewDecoder(body)
	var out []piece
	if code == jute.OK {
		out = k.record(s.op(), &d)
	}
	return k.rest(out, &d)
}

// rest records what a record has too much or too little.
func (k *book) rest(out []piece, d *jute.Decoder) []piece {
	if err := d.Err(); err != nil {
		out = append(out, piece{name: "error", text: err.Error()})
	}
	if rest := d.Rest(); len(rest) > 0 {
		out = append(out, piece{name: "rest", text: fmt.Sprintf("%x", rest)})
	}
	return out
}

func (k *book) record(op jute.Op, d *jute.Decoder) []piece {
	switch op {
	case jute.OpCreate, jute.OpSync:
		return []piece{k.path(d.ReadBytes())}
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return append([]piece{k.path(d.ReadBytes())}, k.stat(d)...)
	case jute.OpExists, jute.OpSetData, jute.OpSetACL:
		return k.stat(d)
	case jute.OpGetData:
		return append([]piece{k.text("data", d.ReadBytes())}, k.stat(d)...)
	case jute.OpGetACL:
		var r jute.GetACLResponse
		r.Decode(d)
		return append(acls(r.ACL), k.statPieces(r.Stat)...)
	case jute.OpGetChildren, jute.OpGetEphemerals:
		return []piece{k.names(d)}
	case jute.OpGetChildren2:
		return append([]piece{k.names(d)}, k.stat(d)...)
	case jute.OpGetAllChildrenNumber, jute.OpAddWatch:
		return []piece{{name: "number", text: fmt.Sprint(d.ReadInt32())}}
	case jute.OpWhoAmI:
		var r jute.WhoAmIResponse
		r.Decode(d)
		var who []string
		for _, c := range r.ClientInfo {
			who = append(who, fmt.Sprintf("%q:%q", c.AuthScheme, c.User))
		}
		slices.Sort(who)
		return []piece{{name: "who", text: strings.Join(who, " ")}}
	case jute.OpMulti, jute.OpMultiRead:
		return k.results(d)
	}
	return nil
}

// results decodes the results of a multi.
func (k *book) results(d *jute.Decoder) []piece {
	var out []piece
	for d.Err() == nil {
		var h jute.MultiHeader
		h.Decode(d)
		if h.Done {
			return append(out, piece{name: "end", text: fmt.Sprint(int32(h.Type), int32(h.Err))})
		}
		out = append(out, piece{name: "result", text: fmt.Sprint(int32(h.Type), int32(h.Err))})
		if h.Type == jute.OpError {
			out = append(out, piece{name: "error", text: fmt.Sprint(d.ReadInt32())})
			continue
		}
		out = append(out, k.record(h.Type, d)...)
	}
	return out
}

func (k *book) path(b []byte) piece { return k.text("path", b) }

func (k *book) text(name string, b []byte) piece {
	if b == nil {
		return piece{name: name, text: "null"}
	}
	return piece{name: name, text: strconv.QuoteToASCII(strings.Replace(string(b), k.top, top, 1))}
}

func (k *book) names(d *jute.Decoder) piece {
	var r jute.GetChildrenResponse
	r.Decode(d)
	var names []string
	for _, c := range r.Children {
		names = append(names, k.text("", c).text)
	}
	slices.Sort(names)
	return piece{name: "names", text: fmt.Sprint(len(names), names)}
}

// acls keeps the order of a list, except for entries that come from one auth entry: ZooKeeper has a
// connection's identities in no fixed order.
func acls(list []jute.ACL) []piece {
	entry := func(a jute.ACL) string { return fmt.Sprintf("%d %q %q", a.Perms, a.ID.Scheme, a.ID.ID) }
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && string(list[i].ID.Scheme) == "digest" && string(list[j].ID.Scheme) == "digest" && list[i].Perms == list[j].Perms {
			j++
		}
		slices.SortFunc(list[i:j], func(a, b jute.ACL) int { return strings.Compare(entry(a), entry(b)) })
		i = j
	}
	var out []piece
	for _, a := range list {
		out = append(out, piece{name: "acl", text: entry(a)})
	}
	return out
}

func (k *book) stat(d *jute.Decoder) []piece {
	var s jute.Stat
	s.Decode(d)
	if d.Err() != nil {
		return nil
	}
	return k.statPieces(s)
}

func (k *book) statPieces(s jute.Stat) []piece {
	owner, known := k.sessions[s.EphemeralOwner]
	if !known {
		owner = fmt.Sprintf("%#x", uint64(s.EphemeralOwner))
	}
	return []piece{
		{name: "z:czxid", zxid: s.Czxid},
		{name: "z:mzxid", zxid: s.Mzxid},
		{name: "z:pzxid", zxid: s.Pzxid},
		{name: "ctime", text: k.time(s.Czxid, s.Ctime)},
		{name: "mtime", text: k.time(s.Mzxid, s.Mtime)},
		{name: "version", text: fmt.Sprint(s.Version)},
		{name: "cversion", text: fmt.Sprint(s.Cversion)},
		{name: "aversion", text: fmt.Sprint(s.Aversion)},
		{name: "owner", text: owner},
		{name: "length", text: fmt.Sprint(s.DataLength)},
		{name: "children", text: fmt.Sprint(s.NumChildren)},
	}
}

// time checks whether t can be the time of the transaction zxid. It must be between the beginning
// of the sequence and now, and always the same for that zxid.
func (k *book) time(zxid, t int64) string {
	if t < k.began || t > k.now() {
		return fmt.Sprintf("%d, outside of the sequence", t)
	}
	if before, known := k.times[zxid]; known && before != t {
		return fmt.Sprintf("%d, was %d", t, before)
	}
	k.times[zxid] = t
	return "ok"
}
