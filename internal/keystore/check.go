package keystore

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"rollcall/internal/secretfile"
)

// CheckFiles reads all files of o as Open does, and returns all their faults: for each file why Open would fail,
// and warnings about what needs attention soon.
func CheckFiles(o Options) (faults []*secretfile.Fault) {
	o = o.withDefaults()
	m := &material{}
	for _, read := range fileReaders {
		err := read(m, o)
		if fault := (*secretfile.Fault)(nil); errors.As(err, &fault) {
			faults = append(faults, fault)
		}
	}
	now := o.Now()
	faults = append(faults, secretfile.NewWarnings(o.Prefix+".keyStore.location", o.Key.Location, m.exposedWarning)...)
	faults = append(faults, secretfile.NewWarnings(o.Prefix+".keyStore.location", o.Key.Location,
		expiryWarnings(m.chain, now)...)...)
	faults = append(faults, secretfile.NewWarnings(o.Prefix+".trustStore.location", o.Trust.Location,
		expiryWarnings(m.trusted, now)...)...)
	return append(faults, secretfile.NewWarnings(o.Prefix+".crl.location", o.CRLFile, m.crls.outdatedWarnings(now)...)...)
}

// expiryWarnings returns a warning for each certificate that has expired or soon will.
func expiryWarnings(certs []*x509.Certificate, now time.Time) (texts []string) {
	for _, c := range certs {
		until := c.NotAfter.UTC().Format(timeFormat)
		switch left := c.NotAfter.Sub(now); {
		case left <= 0:
			texts = append(texts, fmt.Sprintf("the certificate of %q has expired: it was valid until %s; replace it", c.Subject,
				until))
		case left <= ExpiryNotice:
			texts = append(texts, fmt.Sprintf("the certificate of %q expires soon: it is valid until %s; replace it before",
				c.Subject, until))
		}
	}
	return texts
}

// outdatedWarnings returns a warning for each list that is not current now.
func (r *revocationLists) outdatedWarnings(now time.Time) (texts []string) {
	if r == nil {
		return nil
	}
	for _, list := range r.lists {
		if !isCurrent(list, now) {
			texts = append(texts, fmt.Sprintf("the list of %q is not current: it counts from %s to %s, and this machine's "+
				"clock says %s, so the issuer's certificates are rejected; put a new list there",
				list.Issuer, list.ThisUpdate.UTC().Format(timeFormat), list.NextUpdate.UTC().Format(timeFormat),
				now.UTC().Format(timeFormat)))
		}
	}
	return texts
}
