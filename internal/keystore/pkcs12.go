package keystore

import (
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"

	"software.sslmate.com/src/go-pkcs12"
)

// readPKCS12 reads a PKCS12 store: a private key with its certificates, or certificates that are marked
// as trusted, as keytool -importcert marks them.
func readPKCS12(data []byte, password string) (storeContents, error) {
	if err := checkIterations(data, maxNesting); err != nil {
		return storeContents{}, err
	}
	key, leaf, more, err := pkcs12.DecodeChain(data, password)
	if errors.Is(err, pkcs12.ErrIncorrectPassword) {
		return storeContents{}, errPassword
	}
	if err == nil {
		s, err := asSigner(key)
		return storeContents{keys: []crypto.Signer{s}, certs: append([]*x509.Certificate{leaf}, more...)}, err
	}
	trusted, errTrust := pkcs12.DecodeTrustStore(data, password)
	switch {
	case errTrust == nil:
		return storeContents{trusted: trusted}, nil
	case errors.Is(errTrust, pkcs12.ErrIncorrectPassword):
		return storeContents{}, errPassword
	}
	return storeContents{}, fmt.Errorf("this is neither a PKCS12 store of one private key (%w) nor one of trusted "+
		"certificates only (%w)", err, errTrust)
}

// maxNesting bounds the nesting of values in a PKCS12 store. Real ones have about 15 levels.
const maxNesting = 40

// checkIterations rejects a store that needs more than maxIterations to derive a key from its password, which
// the library does not. Everywhere in a store, that count is the integer that follows a salt, and a salt is a
// string of bytes.
func checkIterations(der []byte, depth int) error {
	if depth == 0 {
		return errors.New("this is no PKCS12 store: its values are nested too deeply")
	}
	salted := false
	for len(der) > 0 {
		var v asn1.RawValue
		rest, err := asn1.Unmarshal(der, &v)
		if err != nil {
			return nil // unstructured bytes; the library rejects them if they must not be
		}
		universal := v.Class == asn1.ClassUniversal
		if universal && v.Tag == asn1.TagInteger && salted {
			var n int
			if _, err := asn1.Unmarshal(v.FullBytes, &n); err != nil || n > maxIterations {
				return fmt.Errorf("deriving the store's key takes too many iterations; there must be at most %d", maxIterations)
			}
		}
		salted = universal && v.Tag == asn1.TagOctetString
		if v.IsCompound || salted {
			if err := checkIterations(v.Bytes, depth-1); err != nil {
				return err
			}
		}
		der = rest
	}
	return nil
}
