package kerberos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// MaxKeytab is the longest keytab, in bytes: that of ten thousand keys.
	MaxKeytab = 1 << 20

	keytabMagic   = 5
	keytabVersion = 2
)

// Principal is a service with its realm, such as zookeeper/host@REALM.
type Principal struct {
	Name  string // without the realm, with slashes between its parts
	Realm string
}

func (p Principal) String() string { return p.Name + "@" + p.Realm }

// ParsePrincipal parses the name of a service. If it has no realm, it is of defaultRealm.
func ParsePrincipal(text, defaultRealm string) (Principal, error) {
	name, realm, hasRealm := strings.Cut(text, "@")
	if !hasRealm {
		realm = defaultRealm
	}
	switch {
	case strings.Contains(realm, "@") || name == "" || name == "*":
		return Principal{}, fmt.Errorf("the principal %s must be a service and a host with a realm, such as zookeeper/host@REALM", quoteShort(text))
	case realm == "":
		return Principal{}, fmt.Errorf("the principal %s has no realm, and there is no default_realm; write zookeeper/host@REALM", quoteShort(text))
	}
	return Principal{name, realm}, nil
}

// Keytab has the keys of services.
type Keytab struct {
	entries []keytabEntry
	weak    map[Principal][]string // the names of the encryption types that are not served
}

type keytabEntry struct {
	principal Principal
	version   uint32
	key       key
}

var errKeytab = errors.New("it is no keytab of version 2; make one with ktadd of kadmin, or with ktutil")

// ParseKeytab reads the content of a keytab. It leaves out keys of encryption types that are not served. Its errors show nothing of
// the content. The keytab of gokrb5 is not used: its errors have the keys in them.
func ParseKeytab(content []byte) (*Keytab, error) {
	switch {
	case len(content) > MaxKeytab:
		return nil, fmt.Errorf("the keytab has over %d bytes", MaxKeytab)
	case len(content) < 2 || content[0] != keytabMagic || content[1] != keytabVersion:
		return nil, errKeytab
	}
	t := &Keytab{weak: map[Principal][]string{}}
	for rest := content[2:]; len(rest) > 0; {
		r := keytabReader{rest: rest}
		size := int64(int32(r.uint32()))
		hole := size < 0 // of a key that was removed
		if hole {
			size = -size
		}
		entry := r.bytes(size)
		if r.failed {
			return nil, errors.New("the keytab ends within an entry; copy it again")
		}
		rest = r.rest
		if hole || size == 0 {
			continue
		}
		if err := t.addEntry(entry); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// addEntry adds an entry without its length.
func (t *Keytab) addEntry(entry []byte) error {
	r := keytabReader{rest: entry}
	parts := int(r.uint16())
	realm := string(r.counted())
	var names []string
	for range parts {
		if r.failed { // a count of a broken file does not decide how long this takes
			break
		}
		names = append(names, string(r.counted()))
	}
	r.uint32() // the type of the name
	r.uint32() // when the key was added
	version := uint32(r.byte())
	id := int32(r.uint16())
	value := r.counted()
	if r.failed {
		return errors.New("the keytab has an entry that is too short; make it again")
	}
	if len(r.rest) >= 4 {
		if long := r.uint32(); long != 0 {
			version = long
		}
	}
	of := Principal{strings.Join(names, "/"), realm}
	if _, err := lookupType(id); err != nil {
		t.weak[of] = append(t.weak[of], typeName(id))
		return nil
	}
	k, err := newKey(id, slices.Clone(value))
	if err != nil {
		return fmt.Errorf("the keytab has a wrong key of %s: %w", of, err)
	}
	t.entries = append(t.entries, keytabEntry{of, version, k})
	return nil
}

// Check returns an error if the keytab has no key of a service that can be used.
func (t *Keytab) Check(service Principal) error {
	var others []string
	for _, e := range t.entries {
		if e.principal == service {
			return nil
		}
		others = append(others, e.principal.String())
	}
	slices.Sort(others)
	others = slices.Compact(others)
	switch weak := t.weak[service]; {
	case len(weak) > 0:
		return fmt.Errorf("the keytab has only keys of %s for %s; add one with AES", strings.Join(weak, ", "), service)
	case len(others) == 0:
		return fmt.Errorf("the keytab has no key of %s, and none with AES of any other principal", service)
	}
	const shown = 5
	return fmt.Errorf("the keytab has no key of %s; it has those of %s", service, strings.Join(others[:min(len(others), shown)], ", "))
}

// keyFor returns the key for a ticket of a service. exact reports whether it has the version that the ticket names; a version of 0, on
// either side, fits every one. Otherwise the key is the newest of its encryption type, as Java tries that one. ok is false if there is no
// key of the type.
func (t *Keytab) keyFor(service Principal, id int32, version int) (k key, exact, ok bool) {
	newest := uint32(0)
	for _, e := range t.entries {
		if e.principal != service || e.key.id != id {
			continue
		}
		if version != 0 && e.version == uint32(version) {
			return e.key, true, true
		}
		if !ok || e.version >= newest {
			k, newest, ok = e.key, e.version, true
			exact = version == 0 || e.version == 0
		}
	}
	return k, exact, ok
}

// versionsOf describes the keys of a service and an encryption type for an error.
func (t *Keytab) versionsOf(service Principal, id int32) string {
	var versions []string
	for _, e := range t.entries {
		if e.principal == service && e.key.id == id {
			versions = append(versions, fmt.Sprint(e.version))
		}
	}
	return strings.Join(versions, ", ")
}

// keytabReader reads the fields of a keytab. After a field that is not there it has failed, and all fields are 0 or empty.
type keytabReader struct {
	rest   []byte
	failed bool
}

func (r *keytabReader) bytes(n int64) []byte {
	if r.failed || n > int64(len(r.rest)) {
		r.rest, r.failed = nil, true
		return nil
	}
	field := r.rest[:n]
	r.rest = r.rest[n:]
	return field
}

func (r *keytabReader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *keytabReader) uint16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *keytabReader) uint32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// counted returns a field after its length.
func (r *keytabReader) counted() []byte { return r.bytes(int64(r.uint16())) }
