package keystore

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"testing"
)

// An encrypted key names the vector with which its decryption begins: a string of 16 bytes. A key with anything else in its place is
// refused, and does not end in a panic.
func TestVectorOfEncryptedKey(t *testing.T) {
	raw := func(v any) asn1.RawValue {
		der, err := asn1.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return asn1.RawValue{FullBytes: der}
	}
	hash := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}}
	kdf := pkix.AlgorithmIdentifier{Algorithm: oidPBKDF2, Parameters: raw(pbkdf2Params{Salt: []byte("salt"), Iterations: 1000, Hash: hash})}
	for _, tt := range []struct {
		name   string
		vector any
		want   error
	}{
		{"16 bytes", make([]byte, 16), nil},
		{"15 bytes", make([]byte, 15), errCipher},
		{"17 bytes", make([]byte, 17), errCipher},
		{"no bytes", []byte{}, errCipher},
		{"a number", 16, errCipher},
	} {
		cipher := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 2}, Parameters: raw(tt.vector)}
		block, vector, err := cipherOf(pkix.AlgorithmIdentifier{Algorithm: oidPBES2, Parameters: raw(pbes2{kdf, cipher})}, "password")
		if !errors.Is(err, tt.want) || err == nil && (block == nil || len(vector) != block.BlockSize()) {
			t.Errorf("%s: %v with a vector of %d bytes, want %v", tt.name, err, len(vector), tt.want)
		}
	}
}
