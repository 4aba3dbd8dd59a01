package keystore

import (
	"bytes"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"

	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
)

// jksMagic begins a JKS file.
const jksMagic = "\xfe\xed\xfe\xed"

// readJKS reads a JKS store. The certificates beside a key belong to it, and all others are trusted.
func readJKS(data []byte, password string) (storeContents, error) {
	if err := checkJKSLengths(data); err != nil {
		return storeContents{}, err
	}
	store := jks.New(jks.WithCaseExactAliases(), jks.WithOrderedAliases())
	if err := store.Load(bytes.NewReader(data), []byte(password)); err != nil {
		return storeContents{}, fmt.Errorf("%w (%w)", errPassword, err)
	}
	var h storeContents
	for _, alias := range store.Aliases() {
		if err := h.addEntry(store, alias, password); err != nil {
			return storeContents{}, fmt.Errorf("entry %q: %w", alias, err)
		}
	}
	return h, nil
}

// addEntry adds one entry of a store.
func (h *storeContents) addEntry(store jks.KeyStore, alias, password string) error {
	if store.IsTrustedCertificateEntry(alias) {
		entry, err := store.GetTrustedCertificateEntry(alias)
		if err != nil {
			return err
		}
		h.trusted, err = addCertificate(h.trusted, entry.Certificate)
		return err
	}
	entry, err := store.GetPrivateKeyEntry(alias, []byte(password))
	if err != nil {
		return fmt.Errorf("its key cannot be decrypted with the store's password, and ZooKeeper has no other: %w", err)
	}
	key, err := x509.ParsePKCS8PrivateKey(entry.PrivateKey)
	if err != nil {
		return err
	}
	s, err := asSigner(key)
	if err != nil {
		return err
	}
	h.keys = append(h.keys, s)
	for _, c := range entry.CertificateChain {
		if h.certs, err = addCertificate(h.certs, c); err != nil {
			return err
		}
	}
	return nil
}

func addCertificate(to []*x509.Certificate, c jks.Certificate) ([]*x509.Certificate, error) {
	cert, err := x509.ParseCertificate(c.Content)
	if err != nil {
		return to, err
	}
	return append(to, cert), nil
}

// errJKS is the error of bytes that are not a JKS store.
var errJKS = errors.New("this is not a JKS store: it is cut off, or damaged")

// checkJKSLengths rejects a store whose lengths and counts do not fit its size, because the library allocates by
// them.
func checkJKSLengths(data []byte) error {
	b := jksBytes{rest: data[len(jksMagic):], ok: true}
	version := b.readNumber(4)
	if version != 1 && version != 2 {
		return fmt.Errorf("the JKS store has version %d; it must be 1 or 2", version)
	}
	for entries := b.readNumber(4); b.ok && entries > 0; entries-- {
		tag := b.readNumber(4)
		b.skipBytes(b.readNumber(2)) // alias
		b.skipBytes(8)               // when it was made
		certs := uint64(1)
		if tag == 1 {
			b.skipBytes(b.readNumber(4)) // the encrypted key
			certs = b.readNumber(4)
		}
		for ; b.ok && certs > 0; certs-- {
			if version == 2 {
				b.skipBytes(b.readNumber(2)) // type
			}
			b.skipBytes(b.readNumber(4))
		}
	}
	if !b.ok {
		return errJKS
	}
	return nil
}

// jksBytes is the unread rest of a store. ok is false after a read beyond its end.
type jksBytes struct {
	rest []byte
	ok   bool
}

// readNumber returns the next number, of 2 or 4 bytes.
func (b *jksBytes) readNumber(size int) uint64 {
	var wide [8]byte
	if b.ok = b.ok && len(b.rest) >= size; !b.ok {
		return 0
	}
	copy(wide[8-size:], b.rest)
	b.rest = b.rest[size:]
	return binary.BigEndian.Uint64(wide[:])
}

func (b *jksBytes) skipBytes(n uint64) {
	if b.ok = b.ok && n <= uint64(len(b.rest)); b.ok {
		b.rest = b.rest[n:]
	}
}
