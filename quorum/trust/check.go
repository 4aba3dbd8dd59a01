package trust

import (
	"errors"
	"fmt"

	"rollcall/internal/keystore"
	"rollcall/internal/secretfile"
)

// Check reads the files as New does, and returns all their faults.
func (cfg Config) Check() (faults []*secretfile.Fault) {
	if from := cfg.secretSource(); from.path != "" {
		_, warnings, err := from.read()
		if fault := (*secretfile.Fault)(nil); errors.As(err, &fault) {
			faults = append(faults, fault)
		}
		for _, w := range warnings {
			faults = append(faults, secretfile.NewWarnings(from.key, from.path, w)...)
		}
	}
	if cfg.Kerberos.isSet() {
		faults = append(faults, cfg.findKerberosFaults()...)
	}
	if cfg.UsesCertificates() {
		faults = append(faults, keystore.CheckFiles(cfg.keyOptions(nil))...)
	}
	return faults
}

// CheckStoreLocations returns an error if certificates are used and the location of a store is not set, with
// the key that requires the store. It reads no file.
func (s Settings) CheckStoreLocations() (asks string, err error) {
	const key, trust = "ssl.quorum.keyStore.location", "ssl.quorum.trustStore.location"
	noKey, noTrust := s.Certificates.KeyStore.Location == "", s.Certificates.TrustStore.Location == ""
	switch {
	case !s.UsesCertificates(), !noKey && !noTrust:
		return "", nil
	case !s.ShowCertificates: // so there is a key, and portUnification
		return key, fmt.Errorf("%s with portUnification=true needs %s; set it, or leave %s out", key, trust, key)
	case noKey:
		return "sslQuorum", fmt.Errorf(missingStoreFormat, key)
	}
	return "sslQuorum", fmt.Errorf(missingStoreFormat, trust)
}

const missingStoreFormat = "sslQuorum=true needs %s; set it, or set sslQuorum=false and ensembleSecretFile"

// UsesCertificates reports whether the certificate files are read. With portUnification they may be read before
// any member shows a certificate.
func (s Settings) UsesCertificates() bool {
	return s.ShowCertificates || s.AcceptPlain && s.Certificates.KeyStore.Location != ""
}

// IsPlain reports whether connections between members are plain and unauthenticated.
func (s Settings) IsPlain() bool {
	return s.secretSource().path == "" && !s.Kerberos.isSet() && !s.UsesCertificates()
}
