package keystore

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// revocationLists are the lists of revoked certificates. If nil, revocation is not checked.
type revocationLists struct {
	lists []*x509.RevocationList
}

// loadCRLs reads a file of lists: one or more in PEM, or one in DER.
func (m *material) loadCRLs(path string) (*revocationLists, error) {
	f, err := m.readAndSum(path)
	if err != nil {
		return nil, err
	}
	return parseCRLs(f.Text)
}

func parseCRLs(data []byte) (*revocationLists, error) {
	r := &revocationLists{}
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		data = rest
		if block.Type != "X509 CRL" {
			continue
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("list %d: %w", len(r.lists)+1, err)
		}
		r.lists = append(r.lists, list)
	}
	if len(r.lists) > 0 {
		return r, nil
	}
	list, err := x509.ParseRevocationList(data)
	if err != nil {
		return nil, errors.New("there is no list of revoked certificates in the file; it must have blocks X509 CRL in " +
			"PEM, or one list in DER")
	}
	return &revocationLists{lists: []*x509.RevocationList{list}}, nil
}

// checkAnyChain returns an error unless at least one of the chains, each from a certificate to an authority,
// has nothing revoked in it.
func (r *revocationLists) checkAnyChain(chains [][]*x509.Certificate, now time.Time) error {
	if r == nil {
		return nil
	}
	err := errors.New("no chain leads to an authority")
	for _, chain := range chains {
		if err = r.checkChain(chain, now); err == nil {
			return nil
		}
	}
	return err
}

func (r *revocationLists) checkChain(chain []*x509.Certificate, now time.Time) error {
	for i, cert := range chain[:len(chain)-1] {
		if err := r.checkNotRevoked(cert, chain[i+1], now); err != nil {
			return err
		}
	}
	return nil
}

// checkNotRevoked returns an error unless a current list of the issuer does not have cert.
func (r *revocationLists) checkNotRevoked(cert, issuer *x509.Certificate, now time.Time) error {
	listed := false
	for _, list := range r.lists {
		if !bytes.Equal(list.RawIssuer, cert.RawIssuer) || list.CheckSignatureFrom(issuer) != nil {
			continue
		}
		for _, entry := range list.RevokedCertificateEntries {
			if entry.SerialNumber.Cmp(cert.SerialNumber) == 0 {
				return fmt.Errorf("the certificate of %q was revoked at %s", cert.Subject,
					entry.RevocationTime.UTC().Format(time.DateTime))
			}
		}
		listed = listed || isCurrent(list, now)
	}
	if !listed {
		return fmt.Errorf("no current list of revoked certificates of %q is available, so its certificate of %q is rejected",
			issuer.Subject, cert.Subject)
	}
	return nil
}

// isCurrent reports whether a list is valid at now.
func isCurrent(list *x509.RevocationList, now time.Time) bool {
	return !now.Before(list.ThisUpdate) && (list.NextUpdate.IsZero() || !now.After(list.NextUpdate))
}
