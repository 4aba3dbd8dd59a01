package keystore

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"rollcall/internal/secretfile"
)

// maxFileSize bounds a file that is read. The largest that people use, the authorities of a whole
// distribution, has a fifth of it.
const maxFileSize = 1 << 20

// sum is a checksum of the files' contents. It differs if one of them has changed.
type sum [sha256.Size]byte

// storeContents is what a store of any format holds.
type storeContents struct {
	keys    []crypto.Signer
	certs   []*x509.Certificate // beside the keys, in any order
	trusted []*x509.Certificate // that the store says are to be believed
}

// format reads one kind of store. A reader must return an error for any bytes, and take memory in
// proportion to them.
type format struct {
	name, extension string
	read            func(data []byte, password string) (storeContents, error)
}

// formats has ZooKeeper's, by ZooKeeper's names. Files of the two formats of Java are told apart by their
// first bytes, as Java does: keytool has long written PKCS12 into files that end in .jks.
var formats = []format{
	{"PEM", ".pem", readPEM},
	{"PKCS12", ".p12", readJava},
	{"PKCS12", ".pfx", readJava},
	{"JKS", ".jks", readJava},
}

// ErrBCFKS is why one of ZooKeeper's formats cannot be read.
var ErrBCFKS = errors.New("a BCFKS store can be read only by Bouncy Castle's library for Java; convert it with keytool -importkeystore to PKCS12")

// IsKnownType reports whether a word, in any case of letters, is the type of a Store.
func IsKnownType(word string) bool {
	return slices.ContainsFunc(formats, func(f format) bool { return strings.EqualFold(f.name, word) })
}

// formatOf returns the format of a store whose key in the configuration is called key.
func formatOf(key string, s Store) (format, error) {
	extension := filepath.Ext(s.Location)
	if strings.EqualFold(s.Type, "BCFKS") || s.Type == "" && extension == ".bcfks" {
		return format{}, ErrBCFKS
	}
	for _, f := range formats {
		if s.Type != "" && strings.EqualFold(s.Type, f.name) || s.Type == "" && extension == f.extension {
			return f, nil
		}
	}
	if s.Type != "" {
		return format{}, fmt.Errorf("%s.type=%s: allowed are PEM, PKCS12 and JKS", key, s.Type)
	}
	return format{}, fmt.Errorf("the file's name does not say its format: allowed are .pem, .p12, .pfx and .jks, or any name with %s.type=PEM, PKCS12 or JKS", key)
}

// loadStore reads one store. exposed says that others may read the file.
func (m *material) loadStore(key string, s Store) (h storeContents, exposed string, err error) {
	f, err := formatOf(key, s)
	if err != nil {
		return storeContents{}, "", err
	}
	file, err := m.readFile(s.Location)
	if err != nil {
		return storeContents{}, "", err
	}
	h, err = recoverPanics(f.read, file.Text, s.Password)
	return h, file.ExposedWarning(), err
}

// recoverPanics calls read. A panic in it, which would be a library's, is an error.
func recoverPanics(read func([]byte, string) (storeContents, error), data []byte, password string) (h storeContents, err error) {
	defer func() {
		if p := recover(); p != nil {
			h, err = storeContents{}, fmt.Errorf("the file is damaged: reading it ended with %v", p)
		}
	}()
	return read(data, password)
}

// readFile reads a file of at most maxFile bytes, and adds it to the sum.
func (m *material) readFile(path string) (secretfile.File, error) {
	f, err := readBounded(path)
	if err != nil {
		return f, err
	}
	hash := sha256.New()
	hash.Write(m.sum[:])
	hash.Write(f.Text)
	hash.Sum(m.sum[:0])
	return f, nil
}

// readBounded reads a file of at most maxFile bytes.
func readBounded(path string) (secretfile.File, error) {
	f, err := secretfile.ReadFile(path, maxFileSize)
	switch {
	case err != nil:
		return f, err
	case len(f.Text) > maxFileSize:
		return f, fmt.Errorf("the file has more than %d bytes, the most that a store may have", maxFileSize)
	case len(f.Text) == 0:
		return f, errors.New("the file is empty")
	}
	return f, nil
}

// readJava reads a store of either format of Java.
func readJava(data []byte, password string) (storeContents, error) {
	if bytes.HasPrefix(data, []byte(jksMagic)) {
		return readJKS(data, password)
	}
	return readPKCS12(data, password)
}
