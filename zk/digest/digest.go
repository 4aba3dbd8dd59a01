// Package digest makes the identities of the scheme digest: a user, and a hash of the user with the password.
package digest

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
)

// Algorithm is a hash function. The zero value is SHA1, ZooKeeper's default.
type Algorithm uint8

type algorithmInfo struct {
	name     string // Java's
	alias    string // another name that Java accepts
	hashSize int    // in bytes
	newHash  func() hash.Hash
}

// algorithms is indexed by Algorithm. It has the algorithms of Java 17, except MD2 and MD5.
var algorithms = [...]algorithmInfo{
	{"SHA1", "SHA", sha1.Size, sha1.New},
	{"SHA-224", "SHA224", sha256.Size224, sha256.New224},
	{"SHA-256", "SHA256", sha256.Size, sha256.New},
	{"SHA-384", "SHA384", sha512.Size384, sha512.New384},
	{"SHA-512", "SHA512", sha512.Size, sha512.New},
	{"SHA-512/224", "SHA512/224", sha512.Size224, sha512.New512_224},
	{"SHA-512/256", "SHA512/256", sha512.Size256, sha512.New512_256},
	{"SHA3-224", "", 28, func() hash.Hash { return sha3.New224() }},
	{"SHA3-256", "", 32, func() hash.Hash { return sha3.New256() }},
	{"SHA3-384", "", 48, func() hash.Hash { return sha3.New384() }},
	{"SHA3-512", "", 64, func() hash.Hash { return sha3.New512() }},
}

// AlgorithmNames lists every algorithm, for errors and help.
var AlgorithmNames = func() string {
	var names []string
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}()

// ParseAlgorithm returns the algorithm with a name, in any case, as Java does. The error lists the names.
func ParseAlgorithm(name string) (Algorithm, error) {
	upper := strings.ToUpper(name)
	if upper == "SHA-1" {
		return 0, nil
	}
	for i, a := range algorithms {
		if upper == a.name || upper == a.alias && upper != "" {
			return Algorithm(i), nil
		}
	}
	return 0, fmt.Errorf("must be %s", AlgorithmNames)
}

// String returns Java's name of the algorithm.
func (a Algorithm) String() string {
	if int(a) >= len(algorithms) {
		return fmt.Sprintf("alg(%d)", uint8(a))
	}
	return algorithms[a].name
}

// HashSize returns the length of a hash, in bytes.
func (a Algorithm) HashSize() int { return algorithms[a].hashSize }

// IdentityOf returns the identity of a "user:password" text: the user and the base64 of a hash of the whole
// text. Without a colon, the whole text is the user.
func (a Algorithm) IdentityOf(text string) string {
	user, _, _ := strings.Cut(text, ":")
	h := algorithms[a].newHash()
	_, _ = h.Write([]byte(text)) // a hash never fails to write
	return user + ":" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// fingerprintDigits makes a fingerprint short enough to compare by eye. Two identities share one by chance in
// one of four billion cases.
const fingerprintDigits = 8

// Fingerprint distinguishes two identities with the same user. It is the first hexadecimal digits of the
// SHA-256 of "digest:" and an identity of IdentityOf.
func Fingerprint(id string) string {
	sum := sha256.Sum256([]byte("digest:" + id))
	return hex.EncodeToString(sum[:fingerprintDigits/2])
}

// HasHashSize reports whether an identity of IdentityOf has a hash of this algorithm's length.
func (a Algorithm) HasHashSize(id string) bool {
	_, sum, _ := strings.Cut(id, ":")
	raw, err := base64.StdEncoding.DecodeString(sum)
	return err == nil && len(raw) == a.HashSize()
}
