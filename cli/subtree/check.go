package subtree

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// maxValue is how many bytes of a document may belong to one value: a node with the largest data that a
// server can be set to accept (8 MiB) takes 11 MiB in base64, and as text at most six times as many bytes
// as it has.
const maxValue = 64 << 20

var (
	// ErrNotWhole says that a document ends before its end.
	ErrNotWhole = errors.New("the file is not whole: it ends within the dump")
	// ErrChecksum says that the content of a document is not what its checksum says.
	ErrChecksum = errors.New("the content differs from the checksum in the file: it was changed or damaged")
)

// Check reads a whole document and calls each, unless it is nil, with every node. It returns what the
// document says of itself. Unless edited is set, the checksum must fit. The error says what is wrong with the
// document, or is one of r, or of each.
//
// The nodes must be in the order of Space.Walk, and the parent of each but the first must be there.
func Check(r io.Reader, edited bool, each func(*Record) error) (Summary, error) {
	return check(&bounded{from: r, most: maxValue}, edited, each)
}

func check(in *bounded, edited bool, each func(*Record) error) (Summary, error) {
	c := &checker{json: json.NewDecoder(in), in: in, sum: newChecksum(), each: each}
	if err := c.document(); err != nil {
		var syntax *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = ErrNotWhole
		case errors.As(err, &syntax):
			err = fmt.Errorf("not a dump, or a damaged one: at byte %d: %w", c.json.InputOffset(), err)
		}
		return c.found, err
	}
	return c.found, c.judge(edited)
}

// bounded reads from another reader, about so many bytes at most between two resets of read.
type bounded struct {
	from io.Reader
	most int
	read int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.read > b.most {
		return 0, fmt.Errorf("a value of the document has more than %d bytes", b.most)
	}
	n, err := b.from.Read(p)
	b.read += n
	return n, err
}

// checker is one pass over a document.
type checker struct {
	json  *json.Decoder
	in    *bounded
	sum   *checksum
	each  func(*Record) error
	said  Summary // what the document says of itself
	found Summary // the same, with counts as found
	seen  map[string]bool
	last  Record // the last node
}

// document reads the document up to its end.
func (c *checker) document() error {
	if err := c.expect('{'); err != nil {
		return err
	}
	fields := map[string]any{
		"format": &c.said.Format, "version": &c.said.Version, "path": &c.said.Path, "created": &c.said.Created,
		"count": &c.said.Count, "ephemerals": &c.said.Ephemerals, "left_out": &c.said.LeftOut, "unread": &c.said.Unread,
		"hidden": &c.said.Hidden, "newer": &c.said.Newer, "sha256": &c.said.SHA256,
	}
	c.seen = map[string]bool{}
	for c.json.More() {
		key, err := c.json.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string) // a key of an object is a string
		field, known := fields[name]
		switch {
		case c.seen[name]:
			return fmt.Errorf("the key %.40q is there twice", name)
		case name == "nodes":
			err = c.nodes()
		case !known:
			return fmt.Errorf("not a dump of this version: unknown key %.40q", name)
		default:
			err = c.value(field)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.seen[name] = true
		if err := c.kind(); err != nil {
			return err
		}
	}
	if err := c.expect('}'); err != nil {
		return err
	}
	if _, err := c.json.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the end of the dump")
	}
	fields["nodes"] = nil
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !c.seen[name] {
			return fmt.Errorf("not a dump: the key %q is missing", name)
		}
	}
	return nil
}

// kind returns an error as soon as the document says that it is something else.
func (c *checker) kind() error {
	switch {
	case c.seen["format"] && c.said.Format != dumpFormat:
		return fmt.Errorf("not a dump: its format is %.40q, not %q", c.said.Format, dumpFormat)
	case c.seen["version"] && c.said.Version != dumpVersion:
		return fmt.Errorf("a dump of version %d; this program reads version %d", c.said.Version, dumpVersion)
	}
	return nil
}

func (c *checker) expect(want json.Delim) error {
	c.in.read = 0
	got, err := c.json.Token()
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("not a dump: at byte %d, want %v", c.json.InputOffset(), want)
	}
	return nil
}

func (c *checker) value(into any) error {
	c.in.read = 0
	return c.json.Decode(into)
}

// nodes reads the list of nodes.
func (c *checker) nodes() error {
	if err := c.expect('['); err != nil {
		return err
	}
	for c.json.More() {
		var r Record
		if err := c.value(&r); err != nil {
			return fmt.Errorf("node %d: %w", c.found.Count+1, err)
		}
		if err := c.follows(&r); err != nil {
			return fmt.Errorf("node %d: %w", c.found.Count+1, err)
		}
		c.sum.add(&r)
		c.found.Count++
		c.found.Bytes += int64(len(r.Data))
		if r.Owner != "" {
			c.found.Ephemerals++
		}
		if hidden(r.ACL) {
			c.found.Hidden++
		}
		c.last = r
		if c.each != nil {
			if err := c.each(&r); err != nil {
				return err
			}
		}
	}
	return c.expect(']')
}

// follows returns an error if r may not come after the last node.
func (c *checker) follows(r *Record) error {
	if c.found.Count == 0 {
		c.found.Path = r.Path
		return nil
	}
	parent := parentOf(r.Path)
	switch {
	case r.Path == c.last.Path:
		return fmt.Errorf("%s is there twice", r.Path)
	case r.Path == "/" || !IsBelow(r.Path, c.found.Path):
		return fmt.Errorf("%s is not below %s, the first node", r.Path, c.found.Path)
	case comparePaths(r.Path, c.last.Path) < 0:
		return fmt.Errorf("%s comes after %s; the order is parents first, then by name", r.Path, c.last.Path)
	case !IsBelow(c.last.Path, parent):
		return fmt.Errorf("the parent of %s is missing", r.Path)
	case c.last.Owner != "" && parent == c.last.Path:
		return fmt.Errorf("%s is below an ephemeral node", r.Path)
	}
	return nil
}

// judge compares what the document says of itself with what was found.
func (c *checker) judge(edited bool) error {
	found, said := &c.found, &c.said
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

// comparePaths compares two paths in the order of Space.Walk.
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
