package subtree

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// maxValue bounds the bytes of one value in a document. A node with the largest data that a server can accept
// (8 MiB) takes 11 MiB in base64, and at most six times its size as text.
const maxValue = 64 << 20

var (
	// ErrTruncated is the error of a document that ends early.
	ErrTruncated = errors.New("the file is not whole: it ends within the dump")
	// ErrChecksum is the error of a document that differs from its checksum.
	ErrChecksum = errors.New("the content differs from the checksum in the file: it was changed or damaged")
)

// CheckDump reads a whole document, calls each, unless it is nil, with every node, and returns the summary.
// Unless edited is set, the checksum must match. The error is about the document, or one of r or each.
//
// Nodes must be in the order of Space.Walk, and every node but the first needs its parent.
func CheckDump(r io.Reader, edited bool, each func(*Record) error) (Summary, error) {
	return checkBounded(&boundedReader{from: r, limit: maxValue}, edited, each)
}

func checkBounded(in *boundedReader, edited bool, each func(*Record) error) (Summary, error) {
	c := &dumpChecker{json: json.NewDecoder(in), in: in, sum: newChecksum(), each: each}
	if err := c.readDocument(); err != nil {
		var syntax *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = ErrTruncated
		case errors.As(err, &syntax):
			err = fmt.Errorf("not a dump, or a damaged one: at byte %d: %w", c.json.InputOffset(), err)
		}
		return c.found, err
	}
	return c.found, c.checkClaimedSummary(edited)
}

// boundedReader returns an error after about limit bytes. Resetting readBytes starts over.
type boundedReader struct {
	from      io.Reader
	limit     int
	readBytes int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.readBytes > b.limit {
		return 0, fmt.Errorf("a value of the document has more than %d bytes", b.limit)
	}
	n, err := b.from.Read(p)
	b.readBytes += n
	return n, err
}

type dumpChecker struct {
	json     *json.Decoder
	in       *boundedReader
	sum      *checksum
	each     func(*Record) error
	claimed  Summary // by the document
	found    Summary // the same, with counts as found
	seenKeys map[string]bool
	previous Record // the last node
}

func (c *dumpChecker) readDocument() error {
	if err := c.expectDelim('{'); err != nil {
		return err
	}
	fields := map[string]any{
		"format": &c.claimed.Format, "version": &c.claimed.Version, "path": &c.claimed.Path, "created": &c.claimed.Created,
		"count": &c.claimed.Count, "ephemerals": &c.claimed.Ephemerals, "left_out": &c.claimed.LeftOut,
		"unread": &c.claimed.Unread,
		"hidden": &c.claimed.Hidden, "newer": &c.claimed.Newer, "sha256": &c.claimed.SHA256,
	}
	c.seenKeys = map[string]bool{}
	for c.json.More() {
		key, err := c.json.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string) // a key of an object is a string
		field, known := fields[name]
		switch {
		case c.seenKeys[name]:
			return fmt.Errorf("duplicate key %.40q", name)
		case name == "nodes":
			err = c.readNodes()
		case !known:
			return fmt.Errorf("not a dump of this version: unknown key %.40q", name)
		default:
			err = c.decodeValue(field)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.seenKeys[name] = true
		if err := c.checkFormat(); err != nil {
			return err
		}
	}
	if err := c.expectDelim('}'); err != nil {
		return err
	}
	if _, err := c.json.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the end of the dump")
	}
	fields["nodes"] = nil
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !c.seenKeys[name] {
			return fmt.Errorf("not a dump: the key %q is missing", name)
		}
	}
	return nil
}

// checkFormat returns an error as soon as the document has another format or version.
func (c *dumpChecker) checkFormat() error {
	switch {
	case c.seenKeys["format"] && c.claimed.Format != dumpFormat:
		return fmt.Errorf("not a dump: its format is %.40q, not %q", c.claimed.Format, dumpFormat)
	case c.seenKeys["version"] && c.claimed.Version != dumpVersion:
		return fmt.Errorf("a dump of version %d; this program reads version %d", c.claimed.Version, dumpVersion)
	}
	return nil
}

func (c *dumpChecker) expectDelim(want json.Delim) error {
	c.in.readBytes = 0
	got, err := c.json.Token()
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("not a dump: at byte %d, want %v", c.json.InputOffset(), want)
	}
	return nil
}

func (c *dumpChecker) decodeValue(into any) error {
	c.in.readBytes = 0
	return c.json.Decode(into)
}

func (c *dumpChecker) readNodes() error {
	if err := c.expectDelim('['); err != nil {
		return err
	}
	for c.json.More() {
		var r Record
		if err := c.decodeValue(&r); err != nil {
			return fmt.Errorf("node %d: %w", c.found.Count+1, err)
		}
		if err := c.checkOrder(&r); err != nil {
			return fmt.Errorf("node %d: %w", c.found.Count+1, err)
		}
		c.sum.addRecord(&r)
		c.found.Count++
		c.found.Bytes += int64(len(r.Data))
		if r.Owner != "" {
			c.found.Ephemerals++
		}
		if hasHiddenDigest(r.ACL) {
			c.found.Hidden++
		}
		c.previous = r
		if c.each != nil {
			if err := c.each(&r); err != nil {
				return err
			}
		}
	}
	return c.expectDelim(']')
}

// checkOrder returns an error if r must not follow the previous node.
func (c *dumpChecker) checkOrder(r *Record) error {
	if c.found.Count == 0 {
		c.found.Path = r.Path
		return nil
	}
	parent := parentOf(r.Path)
	switch {
	case r.Path == c.previous.Path:
		return fmt.Errorf("duplicate node %s", r.Path)
	case r.Path == "/" || !IsAtOrBelow(r.Path, c.found.Path):
		return fmt.Errorf("%s is not below %s, the first node", r.Path, c.found.Path)
	case comparePaths(r.Path, c.previous.Path) < 0:
		return fmt.Errorf("%s comes after %s; the order is parents first, then by name", r.Path, c.previous.Path)
	case !IsAtOrBelow(c.previous.Path, parent):
		return fmt.Errorf("the parent of %s is missing", r.Path)
	case c.previous.Owner != "" && parent == c.previous.Path:
		return fmt.Errorf("%s is below an ephemeral node", r.Path)
	}
	return nil
}

// checkClaimedSummary compares the summary in the document with the nodes found.
func (c *dumpChecker) checkClaimedSummary(edited bool) error {
	found, said := &c.found, &c.claimed
	found.SHA256 = c.sum.String()
	found.Format, found.Version, found.Created = said.Format, said.Version, said.Created
	found.LeftOut, found.Unread, found.Newer = said.LeftOut, said.Unread, said.Newer
	switch {
	case found.Count == 0:
		return errors.New("the dump has no nodes")
	case edited:
		return nil
	case said.Path != found.Path:
		return fmt.Errorf("the dump says that it is of %.200q, and its first node is %s", said.Path, found.Path)
	case said.Count != found.Count:
		return fmt.Errorf("%w: it has %d nodes and says %d", ErrChecksum, found.Count, said.Count)
	case said.SHA256 != found.SHA256:
		return ErrChecksum
	}
	return nil
}

func comparePaths(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	switch {
	case i == len(a) || i == len(b):
		return len(a) - len(b)
	case a[i] == '/':
		return -1
	case b[i] == '/':
		return 1
	}
	return int(a[i]) - int(b[i])
}
