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

// maxFileSize bounds a file. The largest in common use, the authorities of a whole distribution, has a fifth
// of it.
const maxFileSize = 1 << 20

// sum is a checksum of the files' contents.
type sum [sha256.Size]byte

// storeContents is the content of a store of any format.
type storeContents struct {
	keys    []crypto.Signer
	certs   []*x509.Certificate // beside the keys, in any order
	trusted []*x509.Certificate // marked as trusted in the store
}

// format reads one kind of store. A reader must return an error for any bytes, and take memory in proportion
// to them.
type format struct {
	name, extension string
	read            func(data []byte, password string) (storeContents, error)
}

// formats are ZooKeeper's, by ZooKeeper's names. As in Java, the first bytes distinguish the two formats of Java
// apart: keytool has long written PKCS12 into files that end in .jks.
var formats = []format{
	{"PEM", ".pem", readPEM},
	{"PKCS12", ".p12", readJKSOrPKCS12},
	{"PKCS12", ".pfx", readJKSOrPKCS12},
	{"JKS", ".jks", readJKSOrPKCS12},
}

// ErrBCFKS is the error of the one format of ZooKeeper that cannot be read.
var ErrBCFKS = errors.New("a BCFKS store can be read only by Bouncy Castle's library for Java; convert it with " +
	"keytool -importkeystore to PKCS12")

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
		return format{}, fmt.Errorf("%s.type=%s: must be PEM, PKCS12 or JKS", key, s.Type)
	}
	return format{}, fmt.Errorf("the file's name does not show its format: it must end in .pem, .p12, .pfx or .jks, or "+
		"set %s.type=PEM, PKCS12 or JKS", key)
}

// loadStore reads one store. exposed is a warning if other users can read the file.
func (m *material) loadStore(key string, s Store) (h storeContents, exposed string, err error) {
	f, err := formatOf(key, s)
	if err != nil {
		return storeContents{}, "", err
	}
	file, err := m.readAndSum(s.Location)
	if err != nil {
		return storeContents{}, "", err
	}
	h, err = readRecoveringPanics(f.read, file.Text, s.Password)
	return h, file.ExposedWarning(), err
}

// readRecoveringPanics calls read, and turns a panic of its library into an error.
func readRecoveringPanics(read func([]byte, string) (storeContents, error), data []byte,
	password string) (h storeContents,
	err error,
) {
	defer func() {
		if p := recover(); p != nil {
			h, err = storeContents{}, fmt.Errorf("the file is damaged: reading it ended with %v", p)
		}
	}()
	return read(data, password)
}

// readAndSum reads a file of at most maxFileSize bytes, and adds it to the sum.
func (m *material) readAndSum(path string) (secretfile.File, error) {
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

func readBounded(path string) (secretfile.File, error) {
	f, err := secretfile.ReadTrustedFile(path, maxFileSize)
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

// readJKSOrPKCS12 reads a store of either format of Java.
func readJKSOrPKCS12(data []byte, password string) (storeContents, error) {
	if bytes.HasPrefix(data, []byte(jksMagic)) {
		return readJKS(data, password)
	}
	return readPKCS12(data, password)
}
