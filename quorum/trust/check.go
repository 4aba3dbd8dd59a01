package trust

import (
	"errors"
	"fmt"

	"rollcall/internal/keystore"
	"rollcall/internal/secretfile"
)

// Check reads the files as New does, and returns everything that is wrong with them.
func (cfg Config) Check() (faults []*secretfile.Fault) {
	if cfg.SecretFile != "" {
		_, exposed, err := readSecrets(cfg.SecretFile)
		if fault := (*secretfile.Fault)(nil); errors.As(err, &fault) {
			faults = append(faults, fault)
		}
		faults = append(faults, secretfile.NewWarnings(secretKey, cfg.SecretFile, exposed)...)
	}
	if cfg.certified() {
		faults = append(faults, keystore.Check(cfg.keyOptions(nil))...)
	}
	return faults
}

// Missing returns an error if certificates are to be read and a store is not named, and the key that asks for
// that store. It reads no file.
func (s Settings) Missing() (asks string, err error) {
	const key, trust = "ssl.quorum.keyStore.location", "ssl.quorum.trustStore.location"
	noKey, noTrust := s.Certificates.Key.Location == "", s.Certificates.Trust.Location == ""
	switch {
	case !s.certified(), !noKey && !noTrust:
		return "", nil
	case !s.SSL: // so there is a key, and portUnification
		return key, fmt.Errorf("%s with portUnification=true needs %s; set it, or leave %s out", key, trust, key)
	case noKey:
		return "sslQuorum", fmt.Errorf(needsStore, key)
	}
	return "sslQuorum", fmt.Errorf(needsStore, trust)
}

const needsStore = "sslQuorum=true needs %s; set it, or set sslQuorum=false and ensembleSecretFile"

// certified reports whether the files of certificates are read. With portUnification they may be there before
// any member shows one.
func (s Settings) certified() bool { return s.SSL || s.Unify && s.Certificates.Key.Location != "" }

// Plain reports whether connections between members are plain, and nobody proves anything.
func (s Settings) Plain() bool { return s.SecretFile == "" && !s.certified() }
