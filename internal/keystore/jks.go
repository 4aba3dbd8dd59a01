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
func readJKS(data []byte, password string) (held, error) {
	if err := checkJKS(data); err != nil {
		return held{}, err
	}
	store := jks.New(jks.WithCaseExactAliases(), jks.WithOrderedAliases())
	if err := store.Load(bytes.NewReader(data), []byte(password)); err != nil {
		return held{}, fmt.Errorf("%w (%w)", errPassword, err)
	}
	var h held
	for _, alias := range store.Aliases() {
		if err := h.addEntry(store, alias, password); err != nil {
			return held{}, fmt.Errorf("entry %q: %w", alias, err)
		}
	}
	return h, nil
}

// addEntry adds one entry of a store.
func (h *held) addEntry(store jks.KeyStore, alias, password string) error {
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
	s, err := signer(key)
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

// errJKS is why bytes are not a JKS store.
var errJKS = errors.New("this is not a JKS store: it is cut off, or damaged")

// checkJKS refuses a store whose lengths and counts do not fit its size, because the library allocates
// by them.
func checkJKS(data []byte) error {
	b := jksBytes{left: data[len(jksMagic):], ok: true}
	version := b.number(4)
	if version != 1 && version != 2 {
		return fmt.Errorf("the JKS store has version %d; allowed are 1 and 2", version)
	}
	for entries := b.number(4); b.ok && entries > 0; entries-- {
		tag := b.number(4)
		b.skip(b.number(2)) // alias
		b.skip(8)           // when it was made
		certs := uint64(1)
		if tag == 1 {
			b.skip(b.number(4)) // the encrypted key
			certs = b.number(4)
		}
		for ; b.ok && certs > 0; certs-- {
			if version == 2 {
				b.skip(b.number(2)) // type
			}
			b.skip(b.number(4))
		}
	}
	if !b.ok {
		return errJKS
	}
	return nil
}

// jksBytes is what is left of a store. ok is false once something was asked for that is not there.
type jksBytes struct {
	left []byte
	ok   bool
}

// number returns the next number, of 2 or 4 bytes.
func (b *jksBytes) number(size int) uint64 {
	var wide [8]byte
	if b.ok = b.ok && len(b.left) >= size; !b.ok {
		return 0
	}
	copy(wide[8-size:], b.left)
	b.left = b.left[size:]
	return binary.BigEndian.Uint64(wide[:])
}

func (b *jksBytes) skip(n uint64) {
	if b.ok = b.ok && n <= uint64(len(b.left)); b.ok {
		b.left = b.left[n:]
	}
}
