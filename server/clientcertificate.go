package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// CertificateChecks are checks of a client's certificate that wait for others. They follow the handshake, in the goroutine of the
// connection, and end with the time of the handshake at the latest.
type CertificateChecks struct {
	// Host rejects a certificate that is not for the address of the client. If ReverseDNS is set, it may be for a name of that address
	// in DNS whose own addresses have it.
	Host, ReverseDNS bool
	Names            AddressNames // default: the resolver of the system

	// Revocation returns an error if the certificate may be revoked; nil: it is not checked.
	Revocation func(ctx context.Context, state *tls.ConnectionState) error
}

// AddressNames looks up the names of an address, and the addresses of a name.
type AddressNames interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	// lookupTimeout limits the look-ups for one client.
	lookupTimeout = 5 * time.Second
	// maxLookups limits the clients whose names are looked up at a time. A client above it is rejected: each holds two queries.
	maxLookups = 64
	// maxNamesOfAddress limits the names of an address that are tried.
	maxNamesOfAddress = 4
)

// certificateChecker checks the certificates of clients. It is safe for concurrent use.
type certificateChecker struct {
	CertificateChecks
	lookups chan struct{} // has a place for each look-up under way
}

func newCertificateChecker(checks CertificateChecks) *certificateChecker {
	if checks.Names == nil {
		checks.Names = net.DefaultResolver
	}
	return &certificateChecker{checks, make(chan struct{}, maxLookups)}
}

// check returns an error if the certificate of a client may not be used from this address. A client without one passes.
func (c *certificateChecker) check(ctx context.Context, state *tls.ConnectionState, client net.Addr) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	if c.Host {
		if err := c.checkHost(ctx, state.PeerCertificates[0], client); err != nil {
			return fmt.Errorf("ssl.clientHostnameVerification: %w", err)
		}
	}
	if c.Revocation == nil {
		return nil
	}
	return c.Revocation(ctx, state)
}

var errTooManyLookups = errors.New("too many clients have their names looked up; try again")

// checkHost returns an error unless a certificate is for the address, or for a name of it that counts.
func (c *certificateChecker) checkHost(ctx context.Context, cert *x509.Certificate, client net.Addr) error {
	at, err := netip.ParseAddrPort(client.String())
	if err != nil {
		return fmt.Errorf("a client without an address: %w", err)
	}
	address := at.Addr().Unmap().WithZone("")
	err = cert.VerifyHostname(address.String())
	if err == nil || !c.ReverseDNS {
		return err
	}
	select {
	case c.lookups <- struct{}{}:
		defer func() { <-c.lookups }()
	default:
		return errTooManyLookups
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	names, lookupErr := c.Names.LookupAddr(ctx, address.String())
	if lookupErr != nil {
		return fmt.Errorf("%w; and its name is not known: %w", err, lookupErr)
	}
	for _, name := range names[:min(len(names), maxNamesOfAddress)] {
		name = strings.TrimSuffix(name, ".")
		if err = cert.VerifyHostname(name); err != nil {
			continue
		}
		if err = c.confirm(ctx, name, address); err == nil {
			return nil
		}
	}
	return err
}

// confirm returns an error unless a name has the address. Whoever owns an address may give it any name, but not a name the address.
func (c *certificateChecker) confirm(ctx context.Context, name string, address netip.Addr) error {
	addresses, err := c.Names.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return fmt.Errorf("the name %s of %s is not confirmed: %w", name, address, err)
	}
	for _, one := range addresses {
		if one.Unmap() == address {
			return nil
		}
	}
	return fmt.Errorf("DNS names %s %s, but that name has other addresses", address, name)
}
