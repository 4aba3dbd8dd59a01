// Package keystore reads the keys and certificates of one side of TLS from files: the key store with the own
// private key, and the trust store with the trusted authorities. It reads ZooKeeper's formats (PEM, PKCS12
// and JKS), for the ports of clients (ssl.*) and of members (ssl.quorum.*) alike. It knows nothing of
// connections, sessions or members.
//
// Keys owns the content of the files at the last reading. Everything about one reading is in one material,
// which never changes; Reload replaces it as a whole, so that a handshake never sees the key of one file with
// the certificate of another. reloadMu is the only lock: it lets one reading at a time replace the material,
// and is held while the files are read.
package keystore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/internal/revocation"
	"rollcall/internal/secretfile"
)

// Store names one file.
type Store struct {
	Location string // path, "" for none
	Password string // "" if it has none
	Type     string // JKS, PEM or PKCS12 in any case; "" to tell by the file's extension
}

// Options names the files to read.
type Options struct {
	Prefix string // of the configuration keys that set these files, such as "ssl"; for errors
	Key    Store  // the private key, its certificate, and the intermediate ones
	Trust  Store  // the authorities that are believed

	// CheckCRLs makes every certificate of the other side count as revoked, unless a current list of its issuer
	// says otherwise. The lists are in CRLs, a file in PEM or DER.
	CheckCRLs bool
	CRLFile   string

	// CheckOCSP makes CheckByOCSP ask the responders of certificates.
	CheckOCSP bool

	// CheckOwnCertificate, if not nil, returns an error if the own certificate, which is valid now, cannot be used here.
	CheckOwnCertificate func(*x509.Certificate) error

	ReloadOnDemandOnly bool // Watch does not reload changed files; Reload and ReloadAndLog do

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // the wall clock, for periods of validity; nil: time.Now

	// OnChange, if not nil, is called when Watch or ReloadAndLog has put other keys in use. It must not wait.
	OnChange func()
}

// Keys holds the content of the files of its Options. All methods may be called at any time, by any
// goroutine.
type Keys struct {
	options      Options
	reloadMu     sync.Mutex
	retryAt      time.Time // start of the certificate's validity, if the last reading was too early
	current      atomic.Pointer[material]
	expiryWarner expiryWarner
	responders   *revocation.Checker // nil: no responder is asked
}

// material is one reading of all files.
type material struct {
	certificate    *tls.Certificate    // nil without a key store
	chain          []*x509.Certificate // certificate's
	exposedWarning string              // a warning if other users can read the key store
	roots          *x509.CertPool      // nil without a trust store
	trusted        []*x509.Certificate // in roots
	crls           *revocationLists    // nil if revocation is not checked
	sum            sum
}

// Open reads and checks all files. Its error names the key of the configuration, the file, the fault and the
// remedy.
func Open(o Options) (*Keys, error) {
	k := &Keys{options: o.withDefaults()}
	m, err := k.readAll()
	if err != nil {
		return nil, err
	}
	k.current.Store(m)
	if o.CheckOCSP {
		k.responders = revocation.New(k.options.Now, nil)
	}
	k.warnExposed()
	return k, nil
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.CheckOwnCertificate == nil {
		o.CheckOwnCertificate = func(*x509.Certificate) error { return nil }
	}
	if o.OnChange == nil {
		o.OnChange = func() {}
	}
	return o
}

// warnExposed warns if other users can read the private key.
func (k *Keys) warnExposed() {
	secretfile.LogIfExposed(k.options.Log, k.options.Prefix+".keyStore.location", k.options.Key.Location,
		k.current.Load().exposedWarning)
}

func (k *Keys) readAll() (*material, error) {
	m := &material{}
	for _, read := range fileReaders {
		if err := read(m, k.options); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// fileReaders read one file each. Their errors are Faults.
var fileReaders = []func(*material, Options) error{
	(*material).readKeyStore, (*material).readTrustStore,
	(*material).readCRLs,
}

func (m *material) readKeyStore(o Options) error {
	if o.Key.Location == "" {
		return nil
	}
	h, exposed, err := m.loadStore(o.Prefix+".keyStore", o.Key)
	m.exposedWarning = exposed
	if err == nil {
		m.certificate, m.chain, err = h.ownCertificate(o.Now())
	}
	if err == nil {
		err = o.CheckOwnCertificate(m.certificate.Leaf)
	}
	return secretfile.WrapFault(o.Prefix+".keyStore.location", o.Key.Location, err)
}

func (m *material) readTrustStore(o Options) error {
	if o.Trust.Location == "" {
		return nil
	}
	h, _, err := m.loadStore(o.Prefix+".trustStore", o.Trust)
	if err == nil {
		m.trusted = h.trusted
		m.roots, err = h.trustPool()
	}
	return secretfile.WrapFault(o.Prefix+".trustStore.location", o.Trust.Location, err)
}

func (m *material) readCRLs(o Options) (err error) {
	switch {
	case !o.CheckCRLs:
		return nil
	case o.CRLFile == "":
		return secretfile.WrapFault(o.Prefix+".crl", "true",
			fmt.Errorf("lists of revoked certificates are read from a file and never fetched from the network; set "+
				"%s.crl.location to it", o.Prefix))
	}
	m.crls, err = m.loadCRLs(o.CRLFile)
	return secretfile.WrapFault(o.Prefix+".crl.location", o.CRLFile, err)
}

// Certificate returns the certificate with its private key, or nil if there is no key store.
func (k *Keys) Certificate() *tls.Certificate { return k.current.Load().certificate }

// Roots returns the trusted authorities, or nil if there is no trust store. The pool must not be changed.
func (k *Keys) Roots() *x509.CertPool { return k.current.Load().roots }

// Reload reads all files again, and reports whether their content has changed. If one of them cannot be used,
// everything stays as it was.
func (k *Keys) Reload() (changed bool, err error) {
	k.reloadMu.Lock()
	defer k.reloadMu.Unlock()
	m, err := k.readAll()
	var early *notYetError
	if k.retryAt = (time.Time{}); errors.As(err, &early) {
		k.retryAt = early.validFrom
	}
	if err != nil {
		return false, err
	}
	return k.current.Swap(m).sum != m.sum, nil
}

// retryDue reports whether the last reading failed because the certificate was not valid yet, and now it is.
func (k *Keys) retryDue() bool {
	k.reloadMu.Lock()
	defer k.reloadMu.Unlock()
	return !k.retryAt.IsZero() && !k.options.Now().Before(k.retryAt)
}

var errNoTrustStore = errors.New("there is no trust store, so no certificate is trusted")

// Verify checks the other side's certificate, chain[0]. The rest of the chain leads to an authority. The
// certificate must be meant for usage, and fit at least one of names (DNS names or addresses), if there are
// any.
func (k *Keys) Verify(chain []*x509.Certificate, usage x509.ExtKeyUsage, names ...string) error {
	m := k.current.Load()
	chains, err := k.verifiedChains(m, chain, usage)
	if err != nil {
		return err
	}
	if err := checkAnyName(chain[0], names); err != nil {
		return err
	}
	return m.crls.checkAnyChain(chains, k.options.Now())
}

// CheckByOCSP returns an error unless the responders of the other side's certificates say that they are not revoked, or unless
// Options.CheckOCSP is not set. staple is the response that the other side sent for its own one, or empty. It may block for some seconds,
// until ctx ends at the latest, and must not be called in a handshake. Verify has accepted the chain.
func (k *Keys) CheckByOCSP(ctx context.Context, chain []*x509.Certificate, usage x509.ExtKeyUsage, staple []byte) error {
	if k.responders == nil || len(chain) == 0 {
		return nil
	}
	chains, err := k.verifiedChains(k.current.Load(), chain, usage)
	for _, one := range chains {
		if err = k.responders.Check(ctx, one, staple); err == nil {
			return nil
		}
	}
	return err
}

// verifiedChains returns the ways from the other side's certificate to authorities in m.
func (k *Keys) verifiedChains(m *material, chain []*x509.Certificate, usage x509.ExtKeyUsage) ([][]*x509.Certificate, error) {
	if m.roots == nil {
		return nil, errNoTrustStore
	}
	if len(chain) == 0 {
		return nil, errors.New("the other side showed no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	chains, err := chain[0].Verify(x509.VerifyOptions{
		Roots: m.roots, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: k.options.Now(),
	})
	return chains, AddClockHint(err)
}

// AddClockHint returns err. If a certificate of the other side is not valid at this time, it adds that the
// clock may be wrong; err shows both times.
func AddClockHint(err error) error {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return fmt.Errorf("%w; if that is not so, the clock of this machine is wrong", err)
	}
	return err
}

// checkAnyName returns an error unless a certificate fits one of names, or there are none.
func checkAnyName(cert *x509.Certificate, names []string) error {
	var err error
	for _, name := range names {
		if err = cert.VerifyHostname(name); err == nil {
			return nil
		}
	}
	return err
}
