package client

import (
	"fmt"
	"iter"
	"unsafe"

	"rollcall/zk/jute"
)

// childNames is the reply to a read of children, with the names as strings that share one piece of memory.
type childNames struct {
	names   []string
	stat    jute.Stat
	inReply bool // the names are in the reply's memory, which does not change: session.Do gives it away
}

// Decode implements session.Readable. It appends to names.
func (c *childNames) Decode(d *jute.Decoder) {
	c.decodeNames(d)
	c.stat.Decode(d)
}

// decodeNames reads the names without the Stat after them. Whatever the names are, it takes 16 bytes for each of them
// and their text once, so at most five times their bytes in the reply, and nothing if they do not make sense.
func (c *childNames) decodeNames(d *jute.Decoder) {
	n, _ := d.ReadCount(lengthSize)
	after := *d
	for range n {
		after.ReadBytes()
	}
	if after.Err() != nil {
		*d = after
		return
	}
	rest := d.Rest()
	reply := rest[:len(rest)-len(after.Rest())]
	text := ""
	if c.inReply {
		text = textInReply(reply)
	} else {
		text = string(reply)
	}
	if have := len(c.names); cap(c.names)-have < n {
		c.names = append(make([]string, 0, have+n), c.names...)
	}
	for range n {
		name := d.ReadBytes()
		end := len(rest) - len(d.Rest())
		c.names = append(c.names, text[end-len(name):end])
	}
}

// textInReply returns bytes of a reply as a string without a copy. The memory of a reply that session.Do has given away
// does not change.
func textInReply(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// ephemeralPaths is the reply to getEphemerals, which has no Stat.
type ephemeralPaths struct{ childNames }

// Decode implements session.Readable.
func (e *ephemeralPaths) Decode(d *jute.Decoder) {
	e.inReply = true
	e.decodeNames(d)
}

// lengthSize is the number of bytes of the length before a name.
const lengthSize = 4

// encodedNames is the reply to a read of children, with the names as they are in the reply.
type encodedNames struct {
	names []byte
	count int
	each  iter.Seq2[[]byte, error] // the method eachName, bound once
}

func newEncodedNames() *encodedNames {
	e := &encodedNames{}
	e.each = e.eachName
	return e
}

// readFrom takes the names of a reply without looking at them, and returns the Stat after them. The Decoder keeps the
// error.
func (e *encodedNames) readFrom(d *jute.Decoder) Stat {
	e.count, _ = d.ReadCount(lengthSize)
	rest := d.Rest()
	end := max(len(rest)-jute.StatSize, 0)
	e.names = rest[:end]
	if d.Err() == nil {
		*d = jute.NewDecoder(rest[end:])
	}
	return readStat(d)
}

// eachName yields all names, and an error after the last one that makes sense.
func (e *encodedNames) eachName(yield func(name []byte, err error) bool) {
	d := jute.NewDecoder(e.names)
	for range e.count {
		name := d.ReadBytes()
		if d.Err() != nil {
			yield(nil, fmt.Errorf("%w: a name without an end", ErrProtocol))
			return
		}
		if !yield(name, nil) {
			return
		}
	}
	if rest := d.Rest(); len(rest) > 0 {
		yield(nil, fmt.Errorf("%w: %d bytes after the last name", ErrProtocol, len(rest)))
	}
}
