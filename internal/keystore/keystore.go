// Package keystore reads the keys and certificates of one side of TLS from files: the key store that
// proves who this process is, and the trust store that says whom it believes. It reads what ZooKeeper
// reads (PEM, PKCS12 and JKS), for the ports of clients (ssl.*) and of members (ssl.quorum.*) alike. It
// knows nothing of connections, sessions or members.
//
// Keys owns what the files held when they were last read. Everything about one reading is in one
// material, which never changes; Reload replaces it as a whole, so that a handshake never sees the key
// of one file with the certificate of another. reloading is the only lock: it lets one reading at a
// time replace the material, and is held while the files are read.
package keystore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/internal/secretfile"
)

// Store names one file.
type Store struct {
	Location string // path, "" for none
	Password string // "" if it has none
	Type     string // JKS, PEM or PKCS12 in any case; "" to tell by the file's extension
}

// Options says which files to read.
type Options struct {
	Prefix string // how the keys that set these files begin in the configuration, such as "ssl"; errors name them
	Key    Store  // the private key, its certificate, and what leads from it to an authority
	Trust  Store  // the authorities that are believed

	// CRL makes every certificate of the other side count as revoked, unless a current list of its
	// issuer says otherwise. The lists are in CRLs, a file in PEM or DER.
	CRL  bool
	CRLs string

	// Own returns why the own certificate is of no use here, or nil. The certificate is valid now. nil: any is of use.
	Own func(*x509.Certificate) error

	Fixed bool // Watch does not read changed files; Reload and ReloadAndLog do

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // the wall clock, for periods of validity; nil: time.Now

	// Changed is called when Watch or ReloadAndLog has put other keys in use. It may not wait. nil:
	// nobody is told.
	Changed func()
}

// Keys has what the files of its Options hold. All methods may be called at any time, by any
// goroutine.
type Keys struct {
	o         Options
	reloading sync.Mutex
	early     time.Time // from when the certificate of the last reading is valid, if that was why it failed
	now       atomic.Pointer[material]
	expiry    expiry
}

// material is one reading of all files.
type material struct {
	certificate *tls.Certificate    // nil without a key store
	chain       []*x509.Certificate // certificate's
	exposed     string              // that others may read the key store
	roots       *x509.CertPool      // nil without a trust store
	trusted     []*x509.Certificate // those in roots
	crls        *revocations        // nil if revocation is not checked
	sum         sum                 // of what was read
}

// Open reads and checks all files. Its error names the key of the configuration, the file, what is
// wrong and what is allowed.
func Open(o Options) (*Keys, error) {
	k := &Keys{o: o.complete()}
	m, err := k.read()
	if err != nil {
		return nil, err
	}
	k.now.Store(m)
	k.warnExposed()
	return k, nil
}

// complete returns o with its defaults.
func (o Options) complete() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Own == nil {
		o.Own = func(*x509.Certificate) error { return nil }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return o
}

// warnExposed logs that others may read the private key.
func (k *Keys) warnExposed() {
	secretfile.LogExposed(k.o.Log, k.o.Prefix+".keyStore.location", k.o.Key.Location, k.now.Load().exposed)
}

// read reads all files.
func (k *Keys) read() (*material, error) {
	m := &material{}
	for _, read := range reads {
		if err := read(m, k.o); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// reads read one file each. Their errors are Faults.
var reads = []func(*material, Options) error{(*material).readKey, (*material).readTrust, (*material).readLists}

func (m *material) readKey(o Options) error {
	if o.Key.Location == "" {
		return nil
	}
	h, exposed, err := m.load(o.Prefix+".keyStore", o.Key)
	m.exposed = exposed
	if err == nil {
		m.certificate, m.chain, err = h.identity(o.Now())
	}
	if err == nil {
		err = o.Own(m.certificate.Leaf)
	}
	return secretfile.Wrong(o.Prefix+".keyStore.location", o.Key.Location, err)
}

func (m *material) readTrust(o Options) error {
	if o.Trust.Location == "" {
		return nil
	}
	h, _, err := m.load(o.Prefix+".trustStore", o.Trust)
	if err == nil {
		m.trusted = h.trusted
		m.roots, err = h.authorities()
	}
	return secretfile.Wrong(o.Prefix+".trustStore.location", o.Trust.Location, err)
}

func (m *material) readLists(o Options) (err error) {
	switch {
	case !o.CRL:
		return nil
	case o.CRLs == "":
		return secretfile.Wrong(o.Prefix+".crl", "true", fmt.Errorf("lists of revoked certificates are read from a file and never fetched from the network; set %s.crl.location to it", o.Prefix))
	}
	m.crls, err = m.loadCRLs(o.CRLs)
	return secretfile.Wrong(o.Prefix+".crl.location", o.CRLs, err)
}

// Certificate returns the certificate with its private key, or nil if there is no key store.
func (k *Keys) Certificate() *tls.Certificate { return k.now.Load().certificate }

// Roots returns the authorities that are believed, or nil if there is no trust store. Nobody may change
// the pool.
func (k *Keys) Roots() *x509.CertPool { return k.now.Load().roots }

// Reload reads all files again, and reports whether they hold something else than before. If one of them
// cannot be used, everything stays as it was.
func (k *Keys) Reload() (changed bool, err error) {
	k.reloading.Lock()
	defer k.reloading.Unlock()
	m, err := k.read()
	var early *notYetError
	if k.early = (time.Time{}); errors.As(err, &early) {
		k.early = early.from
	}
	if err != nil {
		return false, err
	}
	return k.now.Swap(m).sum != m.sum, nil
}

// due reports whether the last reading failed because the certificate was not valid yet, and now it is.
func (k *Keys) due() bool {
	k.reloading.Lock()
	defer k.reloading.Unlock()
	return !k.early.IsZero() && !k.o.Now().Before(k.early)
}

// errNoTrust is why nobody's certificate is believed without a trust store.
var errNoTrust = errors.New("there is no trust store, so no certificate is believed")

// Verify checks a certificate, chain[0], that the other side showed. The rest of the chain leads to an
// authority. The certificate must be meant for usage, and fit at least one of names (DNS names or
// addresses), if there are any.
func (k *Keys) Verify(chain []*x509.Certificate, usage x509.ExtKeyUsage, names ...string) error {
	m := k.now.Load()
	if m.roots == nil {
		return errNoTrust
	}
	if len(chain) == 0 {
		return errors.New("the other side showed no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	now := k.o.Now()
	chains, err := chain[0].Verify(x509.VerifyOptions{Roots: m.roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: now})
	if err != nil {
		return Explained(err)
	}
	if err := fits(chain[0], names); err != nil {
		return err
	}
	return m.crls.check(chains, now)
}

// Explained returns err. If err says that a certificate of the other side is not valid at this time, which it
// does with both times, Explained adds that the clock may be wrong.
func Explained(err error) error {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return fmt.Errorf("%w; if that is not so, the clock of this machine is wrong", err)
	}
	return err
}

// fits checks that a certificate fits one of names, if there are any.
func fits(cert *x509.Certificate, names []string) error {
	var err error
	for _, name := range names {
		if err = cert.VerifyHostname(name); err == nil {
			return nil
		}
	}
	return err
}
