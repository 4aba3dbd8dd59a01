package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Dialer opens a connection to a member's client port, within ctx.
type Dialer func(ctx context.Context, addr string) (net.Conn, error)

// TLS has the TLS flags. The zero value connects without TLS, unless the variables are set.
type TLS struct{ prefix, ca, cert, key string }

// Register adds the flags to cmd. prefix begins their names, and distinguishes the flags of two ensembles.
func (s *TLS) Register(cmd *cobra.Command, prefix string) {
	s.prefix = prefix
	fs := cmd.Flags()
	s.addFlag(fs, &s.ca, "tls-ca",
		"`file` in PEM with the authorities that members are held against: connects over TLS, to secureClientPort "+
			"(ROLLCALL_TLS_CA)")
	s.addFlag(fs, &s.cert, "tls-cert", "`file` in PEM with the certificate to show (ROLLCALL_TLS_CERT)")
	s.addFlag(fs, &s.key, "tls-key",
		"`file` in PEM with its private key (ROLLCALL_TLS_KEY; default: that of --"+prefix+"tls-cert)")
}

func (s *TLS) addFlag(fs *pflag.FlagSet, field *string, name, usage string) {
	fs.StringVar(field, s.prefix+name, "", usage)
	if s.prefix == "" {
		markShared(fs, name)
	}
}

// CommandArgs returns equivalent arguments for a command whose flags have no prefix, if it has the same
// environment.
func (s *TLS) CommandArgs() []string {
	var args []string
	for _, f := range [][2]string{{"--tls-ca=", s.ca}, {"--tls-cert=", s.cert}, {"--tls-key=", s.key}} {
		if f[1] != "" {
			args = append(args, f[0]+f[1])
		}
	}
	return args
}

// ClientConfig reads the files and returns nil if there are no authorities. Its errors have the status
// UsageError.
func (s *TLS) ClientConfig(w IOStreams) (*tls.Config, error) {
	name := "--" + s.prefix + "tls-" // how a flag begins
	setting := func(value, flag string) (_, origin string) {
		value, origin = w.setting(value, flag)
		return value, strings.Replace(origin, "--tls-", name, 1)
	}
	ca, caName := setting(s.ca, "tls-ca")
	cert, certName := setting(s.cert, "tls-cert")
	key, keyName := setting(s.key, "tls-key")
	switch {
	case ca == "" && (cert != "" || key != ""):
		return nil, UsageError.Errorf("%scert and %[1]skey need %[1]sca, which has connections use TLS", name)
	case ca == "":
		return nil, nil
	case cert == "" && key != "":
		return nil, UsageError.Errorf("%skey needs %[1]scert", name)
	case key == "":
		key = cert
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, UsageError.Errorf("%s: %w", caName, err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, UsageError.Errorf("%s: there is no certificate in PEM in %s", caName, ca)
	}
	if cert != "" {
		own, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, UsageError.Errorf("%s %s, %s %s: %w", certName, cert, keyName, key, err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}

// Dialer reads the files and returns a TLS dialer, or a plain one if there are no authorities. Its errors
// have the status UsageError.
func (s *TLS) Dialer(w IOStreams) (Dialer, error) {
	config, err := s.ClientConfig(w)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, addr string) (net.Conn, error) {
		if config == nil {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
	}, nil
}

func (s *TLS) connectAdvice(w IOStreams, err error) string {
	var unbelieved *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var op *net.OpError
	ca, _ := w.setting(s.ca, "tls-ca")
	switch {
	case errors.As(err, &unbelieved):
		return "--tls-ca must name the authority of the member's certificate, and --hosts a name that is in the certificate"
	case errors.As(err, &plain):
		return "--hosts must name secureClientPort, because --tls-ca is set"
	case errors.As(err, &op) && op.Op == "remote error": // an alert of the member's
		return "--tls-cert must name a certificate that the member accepts; its log has the reason why it rejects this one"
	case ca == "" && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		// so a port for TLS ends a plain connection
		return "--hosts names others; if that is secureClientPort, --tls-ca must name the authority of its certificate"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start one of them first, or name others with --hosts"
	}
	return "--hosts names others"
}
