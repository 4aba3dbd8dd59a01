package kerberos

import (
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/types"
)

// The usages of keys (RFC 4120, section 7.5.1; RFC 4121, section 2).
const (
	usageTicket        = 2
	usageAuthenticator = 11
	usageAPRep         = 12
	usageAcceptorWrap  = 22
	usageInitiatorWrap = 24
)

// encryptionType is one that is served. The sizes are in bytes.
type encryptionType struct {
	id                    int32
	name                  string
	keySize, checksumSize int
}

// encryptionTypes are those with AES. Older ones, as rc4-hmac and des, can be broken.
var encryptionTypes = []encryptionType{
	{17, "aes128-cts-hmac-sha1-96", 16, 12},
	{18, "aes256-cts-hmac-sha1-96", 32, 12},
	{19, "aes128-cts-hmac-sha256-128", 16, 16},
	{20, "aes256-cts-hmac-sha384-192", 32, 24},
}

// weakTypes are the names of encryption types that are not served, for errors.
var weakTypes = map[int32]string{1: "des-cbc-crc", 3: "des-cbc-md5", 16: "des3-cbc-sha1-kd", 23: "rc4-hmac", 24: "rc4-hmac-exp"}

const confounderSize = 16 // of every served encryption type

// lookupType returns a served encryption type.
func lookupType(id int32) (encryptionType, error) {
	if at := slices.IndexFunc(encryptionTypes, func(t encryptionType) bool { return t.id == id }); at >= 0 {
		return encryptionTypes[at], nil
	}
	return encryptionType{}, faultf(BadEncryption, "the encryption type is %s; must be one with AES: aes128-cts or aes256-cts", typeName(id))
}

// typeName returns the name of an encryption type, or its number.
func typeName(id int32) string {
	if name := weakTypes[id]; name != "" {
		return name
	}
	for _, t := range encryptionTypes {
		if t.id == id {
			return t.name
		}
	}
	return fmt.Sprint("number ", id)
}

// key is a key of a served encryption type and of its size. Make one with newKey.
type key struct {
	encryptionType
	value []byte
}

func newKey(id int32, value []byte) (key, error) {
	t, err := lookupType(id)
	if err == nil && len(value) != t.keySize {
		err = faultf(BadEncryption, "a key of %d bytes for %s; must be %d", len(value), t.name, t.keySize)
	}
	return key{t, value}, err
}

// newRandomKey returns a new key of the type of another one.
func (k key) newRandomKey() key {
	value := make([]byte, k.keySize)
	_, _ = rand.Read(value) // never fails
	return key{k.encryptionType, value}
}

// encoded returns the key as messages have it.
func (k key) encoded() types.EncryptionKey {
	return types.EncryptionKey{KeyType: k.id, KeyValue: k.value}
}

var errTooShort = errors.New("the encrypted part is too short")

// decrypt returns the text of an encrypted part, whose integrity it checks. The library slices without a check, so a part that is
// shorter than its confounder and checksum does not reach it.
func (k key) decrypt(data types.EncryptedData, usage uint32) ([]byte, error) {
	if data.EType != k.id {
		return nil, fmt.Errorf("the encryption type is %s, and that of the key %s", typeName(data.EType), k.name)
	}
	if len(data.Cipher) < confounderSize+k.checksumSize {
		return nil, errTooShort
	}
	return crypto.DecryptEncPart(data, k.encoded(), usage)
}

func (k key) encrypt(text []byte, usage uint32, version int) (types.EncryptedData, error) {
	return crypto.GetEncryptedData(text, k.encoded(), usage, version)
}

func (k key) checksum(data []byte, usage uint32) ([]byte, error) {
	t, err := crypto.GetEtype(k.id)
	if err != nil {
		return nil, err
	}
	return t.GetChecksumHash(k.value, data, usage)
}

func (k key) verifyChecksum(data, sum []byte, usage uint32) bool {
	want, err := k.checksum(data, usage)
	return err == nil && hmac.Equal(want, sum)
}
