package keystore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
)

// maxIterations bounds the work of deriving a key from a password: about half a second on one processor.
// openssl's default is 2048, and keytool's 10,000.
const maxIterations = 1_000_000

// errPassword is the error of an encrypted key that cannot be decrypted. A damaged file gives the same error.
var errPassword = errors.New("the password does not fit, or the file is damaged")

// The structures of an encrypted private key (RFC 5958), with a password (RFC 8018).
type (
	encryptedKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	pbes2 struct {
		KDF, Cipher pkix.AlgorithmIdentifier
	}
	pbkdf2Params struct {
		Salt       []byte
		Iterations int
		KeyBytes   int                      `asn1:"optional"`
		Hash       pkix.AlgorithmIdentifier `asn1:"optional"`
	}
)

// The algorithms of an encrypted private key that openssl and Java write.
var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}

	kdfHashes = map[string]func() hash.Hash{
		"":                    sha1.New, // the default of the standard
		"1.2.840.113549.2.7":  sha1.New,
		"1.2.840.113549.2.9":  sha256.New,
		"1.2.840.113549.2.11": sha512.New,
	}
	aesKeyBytes = map[string]int{
		"2.16.840.1.101.3.4.1.2":  16,
		"2.16.840.1.101.3.4.1.22": 24,
		"2.16.840.1.101.3.4.1.42": 32,
	}
)

// errCipher is the error of a key that is encrypted in another way.
var errCipher = errors.New("the key is encrypted in a way that is not supported; it must be PBES2 with PBKDF2 and " +
	"AES in CBC mode (openssl pkcs8 -topk8 -v2 aes-256-cbc)")

// decryptPKCS8 decrypts a private key. The result is PKCS8.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	if password == "" {
		return nil, errors.New("the key is encrypted, and no password is set for the store")
	}
	var sealed encryptedKey
	if err := unmarshal(der, &sealed); err != nil {
		return nil, err
	}
	block, iv, err := cipherOf(sealed.Algorithm, password)
	if err != nil {
		return nil, err
	}
	size := block.BlockSize()
	if len(sealed.Data) == 0 || len(sealed.Data)%size != 0 {
		return nil, errPassword
	}
	plain := make([]byte, len(sealed.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, sealed.Data)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > size {
		return nil, errPassword
	}
	plain = plain[:len(plain)-padding]
	var rest asn1.RawValue
	if unmarshal(plain, &rest) != nil { // a wrong password whose padding fits by chance
		return nil, errPassword
	}
	return plain, nil
}

// cipherOf derives the cipher of an encrypted key from a password.
func cipherOf(algorithm pkix.AlgorithmIdentifier, password string) (cipher.Block, []byte, error) {
	var scheme pbes2
	var params pbkdf2Params
	var iv []byte
	if !algorithm.Algorithm.Equal(oidPBES2) {
		return nil, nil, errCipher
	}
	if err := unmarshal(algorithm.Parameters.FullBytes, &scheme); err != nil {
		return nil, nil, err
	}
	newHash, known := kdfHashes[""], scheme.KDF.Algorithm.Equal(oidPBKDF2)
	if known {
		if err := unmarshal(scheme.KDF.Parameters.FullBytes, &params); err != nil {
			return nil, nil, err
		}
		newHash, known = kdfHashes[params.Hash.Algorithm.String()]
	}
	keyBytes, aesCBC := aesKeyBytes[scheme.Cipher.Algorithm.String()]
	if !known || !aesCBC {
		return nil, nil, errCipher
	}
	if err := unmarshal(scheme.Cipher.Parameters.FullBytes, &iv); err != nil || len(iv) != aes.BlockSize {
		return nil, nil, errCipher
	}
	if params.Iterations < 1 || params.Iterations > maxIterations {
		return nil, nil, fmt.Errorf("deriving the key takes %d iterations; it must take 1 to %d", params.Iterations,
			maxIterations)
	}
	key, err := pbkdf2.Key(newHash, password, params.Salt, params.Iterations, keyBytes)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(key)
	return block, iv, err
}

// unmarshal parses all of der into out.
func unmarshal(der []byte, out any) error {
	rest, err := asn1.Unmarshal(der, out)
	if err == nil && len(rest) > 0 {
		err = errors.New("there are bytes after the end")
	}
	return err
}
