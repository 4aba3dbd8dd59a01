package subtree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"rollcall/zk/jute"
)

// A dump is one JSON document. The summary's fields stand around the nodes:
//
//	{"format":"rollcall-dump","version":1,"path":"/app","created":"…","nodes":[
//	{"path":"/app","data":null,"acl":["world:anyone:cdrwa"]},
//	{"path":"/app/a","data":"aGVsbG8=","text":"hello","acl":["world:anyone:cdrwa"]}
//	],"count":2,"ephemerals":0,"left_out":1,"unread":0,"hidden":0,"newer":0,"sha256":"…"}
//
// Nodes are in the order of Space.Walk. The checksum covers the content of the nodes, not the white space
// around it. The fields after the nodes are missing if the dump was interrupted.
const (
	dumpFormat  = "rollcall-dump"
	dumpVersion = 1
)

// Summary describes a dump without its nodes.
type Summary struct {
	Format     string    `json:"format"`
	Version    int       `json:"version"`
	Path       string    `json:"path"` // the top, as the space has it
	Created    time.Time `json:"created"`
	Count      int       `json:"count"`      // nodes in the document
	Ephemerals int       `json:"ephemerals"` // of those, ephemeral nodes
	LeftOut    int       `json:"left_out"`   // ephemeral nodes that are not in the document
	Unread     int       `json:"unread"`     // nodes that the caller may not read; they and all below them are missing
	Hidden     int       `json:"hidden"`     // nodes in whose lists the servers hid digests from the caller
	Newer      int       `json:"newer"`      // nodes that were changed after the dump began
	SHA256     string    `json:"sha256"`
	Bytes      int64     `json:"-"` // of data
}

// Record is a node of a dump, or of another Source.
type Record struct {
	Path  string
	Data  []byte // nil: null
	ACL   []jute.ACL
	Owner string // of an ephemeral node: its session, as "0x…"

	// Container and TTL are the kind of a new node. A dump lacks them, because the protocol does not show
	// them.
	Container bool
	TTL       int64 // ms; 0: it has none
}

type jsonRecord struct {
	Path  string          `json:"path"`
	Data  json.RawMessage `json:"data,omitempty"` // base64, or null
	Text  *string         `json:"text,omitempty"` // the same data, if they are UTF-8
	ACL   []string        `json:"acl"`
	Owner string          `json:"ephemeral_owner,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r Record) MarshalJSON() ([]byte, error) {
	for _, a := range r.ACL {
		if !utf8.Valid(a.ID.Scheme) || !utf8.Valid(a.ID.ID) {
			return nil, fmt.Errorf("%s: its access control list is not UTF-8, which JSON cannot hold", r.Path)
		}
	}
	data, err := json.Marshal(r.Data)
	if err != nil {
		return nil, err
	}
	out := jsonRecord{Path: r.Path, Data: data, ACL: formatACL(r.ACL), Owner: r.Owner}
	if len(r.Data) > 0 && utf8.Valid(r.Data) {
		text := string(r.Data)
		out.Text = &text
	}
	return encodeJSON(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Record) UnmarshalJSON(text []byte) error {
	var in jsonRecord
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return err
	}
	*r = Record{Path: in.Path, Owner: in.Owner}
	if err := CheckPath(in.Path); err != nil {
		return err
	}
	var err error
	if r.Data, err = in.decodeData(); err != nil {
		return fmt.Errorf("%s: %w", in.Path, err)
	}
	for _, text := range in.ACL {
		a, err := parseEntry(text)
		if err != nil {
			return fmt.Errorf("%s: ACL entry %.200q: %w", in.Path, text, err)
		}
		r.ACL = append(r.ACL, a)
	}
	if len(r.ACL) == 0 {
		return fmt.Errorf("%s: its access control list is empty or missing", in.Path)
	}
	return nil
}

// decodeData prefers the key data to text.
func (in jsonRecord) decodeData() (data []byte, err error) {
	switch {
	case in.Data == nil && in.Text == nil:
		return nil, errors.New("it has neither data nor text; null data are \"data\":null")
	case in.Data == nil:
		return []byte(*in.Text), nil
	}
	if err := json.Unmarshal(in.Data, &data); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if in.Text != nil && *in.Text != string(data) {
		return nil, errors.New("data and text differ; after an edit, leave only one of them")
	}
	return data, nil
}

// encodeJSON does not escape HTML, but escapes unprintable runes.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return escapeUnprintable(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// escapeUnprintable escapes runes in JSON, where they occur only in strings.
func escapeUnprintable(text []byte) []byte {
	var out []byte
	for {
		i := bytes.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
		if i < 0 {
			break
		}
		r, size := utf8.DecodeRune(text[i:])
		out = append(out, text[:i]...)
		for _, half := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, half)
		}
		text = text[i+size:]
	}
	if out == nil {
		return text
	}
	return append(out, text...)
}

type checksum struct {
	hash    hash.Hash
	scratch []byte
}

func newChecksum() *checksum { return &checksum{hash: sha256.New()} }

// addRecord hashes the fields of a node in order, each after its length.
func (c *checksum) addRecord(r *Record) {
	c.scratch = append(c.scratch[:0], 0)
	if r.Data == nil {
		c.scratch[0] = 1
	}
	for _, field := range []string{r.Path, string(r.Data), r.Owner} {
		c.scratch = append(binary.AppendUvarint(c.scratch, uint64(len(field))), field...)
	}
	c.scratch = binary.AppendUvarint(c.scratch, uint64(len(r.ACL)))
	for _, a := range formatACL(r.ACL) {
		c.scratch = append(binary.AppendUvarint(c.scratch, uint64(len(a))), a...)
	}
	c.hash.Write(c.scratch)
}

func (c *checksum) String() string { return fmt.Sprintf("%x", c.hash.Sum(nil)) }
