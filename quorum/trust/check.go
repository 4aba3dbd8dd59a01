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

// CheckNewcomers returns an error if a process that is no member could get a vote without a proof, when members come by
// themselves. The rule: such a process must prove a secret, or a certificate of the authority for the host of its server line
// (Conn.MayJoinAt), where the leader dials it. The caller decides which hosts may come, because applications may have certificates
// of the same authority. So plain connections, and certificates without a check of the host, are not possible beside that.
// Nor are tickets of Kerberos: they are accepted from known members alone, and preferred to a secret.
func (s Settings) CheckNewcomers() error {
	switch {
	case s.IsPlain():
		return errors.New("members.join=auto needs a proof of the members, or every process could become one; set ensembleSecretFile or sslQuorum")
	case s.AcceptPlain:
		return errors.New("members.join=auto with plain connections between members: every process could become a member; set portUnification=false, " +
			"and quorum.auth.serverRequireSasl=true if there are logins of members, or members.join=off")
	case s.Certificates.AnyHost && s.UsesCertificates():
		return errors.New("members.join=auto with ssl.quorum.hostnameVerification=false: every certificate of the authority, a client's too, " +
			"could become a member; leave ssl.quorum.hostnameVerification out, or set members.join=off")
	case s.Kerberos.isSet():
		return errors.New("members.join=auto with Kerberos between members: a ticket proves known members alone; give the members a secret " +
			"(ensembleSecretFile) or certificates (sslQuorum) instead, or set members.join=off")
	}
	return nil
}

// IsPlain reports whether connections between members are plain and unauthenticated.
func (s Settings) IsPlain() bool {
	return s.secretSource().path == "" && !s.Kerberos.isSet() && !s.UsesCertificates()
}
