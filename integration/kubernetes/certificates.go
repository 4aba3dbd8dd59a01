package kubernetes

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// securePorts are the ports that show certificates, with the protocol that a client names: for clients, for HTTP, and for members, to
// which certificateProtocol of package quorum/trust leads.
var securePorts = map[string]string{"2281": "", "8080": "", "2888": "rollcall-certificate-1", "3888": "rollcall-certificate-1"}

// authority issues certificates, as cert-manager does.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	issued      int64 // the last serial number
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificateTemplate(1)
	template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &authority{certificate: certificate, key: key, issued: 1}, err
}

func certificateTemplate(serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "rollcall"}, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

// issue returns a Secret's files as cert-manager makes them, for members and clients. Each certificate has the next serial number.
func (a *authority) issue() (map[string]string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a.issued++
	template := certificateTemplate(a.issued)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames, template.IPAddresses = []string{"*.rollcall-members"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	var combined bytes.Buffer
	combined.Write(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	combined.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
	return map[string]string{"tls-combined.pem": combined.String(), "ca.crt": string(ca)}, nil
}

// clientTLS returns the configuration of a client that shows a certificate.
func clientTLS(files map[string]string) (*tls.Config, error) {
	combined := []byte(files["tls-combined.pem"])
	own, err := tls.X509KeyPair(combined, combined)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(files["ca.crt"]))
	return &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: pool}, nil
}

// renew replaces the files in a Secret, as cert-manager does.
func (c *cluster) renew(secret string, files map[string]string) {
	c.t.Helper()
	secrets := c.plane.client.CoreV1().Secrets(namespace)
	object, err := secrets.Get(c.t.Context(), secret, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	object.StringData = files
	if _, err := secrets.Update(c.t.Context(), object, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// awaitSerial waits until a pod shows the certificate of a serial number on all ports.
func (c *cluster) awaitSerial(pod string, serial int64) {
	c.t.Helper()
	for port, protocol := range securePorts {
		await(c.t, readyWithin, fmt.Sprintf("%s shows certificate %d on port %s", pod, serial, port), func(ctx context.Context) error {
			shown, err := c.shownSerial(ctx, pod, port, protocol)
			if err == nil && shown != serial {
				err = fmt.Errorf("it shows certificate %d", shown)
			}
			return err
		})
	}
}

// shownSerial returns the serial number of the certificate that a port of a pod shows.
func (c *cluster) shownSerial(ctx context.Context, pod, port, protocol string) (int64, error) {
	conn, err := c.dial(ctx, "tcp", net.JoinHostPort(pod+".rollcall-members", port))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	config := c.clientTLS.Clone()
	config.ServerName = pod + ".rollcall-members"
	if protocol != "" {
		config.NextProtos = []string{protocol}
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return 0, err
	}
	return secure.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}
