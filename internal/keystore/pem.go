package keystore

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// readPEM reads keys and certificates in PEM. Keys are in PKCS8, encrypted or not, or in the older forms
// of RSA and EC keys, which ZooKeeper does not read. Other blocks, and text between blocks, are skipped.
// All certificates are trusted if the file is a trust store.
func readPEM(data []byte, password string) (storeContents, error) {
	var h storeContents
	blocks := 0
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		blocks++
		switch {
		case strings.HasSuffix(block.Type, "CERTIFICATE"):
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return storeContents{}, fmt.Errorf("block %d, %s: %w", blocks, block.Type, err)
			}
			h.certs = append(h.certs, cert)
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			key, err := parsePEMKey(block, password)
			if err != nil {
				return storeContents{}, fmt.Errorf("block %d, %s: %w", blocks, block.Type, err)
			}
			h.keys = append(h.keys, key)
		}
	}
	if blocks == 0 {
		return storeContents{}, errors.New(`this is not PEM: there is no line "-----BEGIN ...-----" with its end`)
	}
	h.trusted = h.certs
	return h, nil
}

// parsePEMKey reads a private key.
func parsePEMKey(block *pem.Block, password string) (crypto.Signer, error) {
	if block.Headers["DEK-Info"] != "" {
		return nil, errors.New("the key is encrypted in the old manner of OpenSSL, which is not safe; convert it with " +
			"openssl pkcs8 -topk8 -v2 aes-256-cbc")
	}
	der := block.Bytes
	switch block.Type {
	case "ENCRYPTED PRIVATE KEY":
		var err error
		if der, err = decryptPKCS8(der, password); err != nil {
			return nil, err
		}
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(der)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(der)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	return asSigner(key)
}
