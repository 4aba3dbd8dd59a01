package server

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	"rollcall/internal/admission"
	"rollcall/internal/secretfile"
	"rollcall/zk/jute"
	"rollcall/zk/kerberos"
)

// Kerberos configures logins by SASL with Kerberos (GSSAPI).
type Kerberos struct {
	KeytabFile   string // "": not served. It is read again when it has changed
	Principal    string // of the service, such as zookeeper/host@REALM
	Rules        string // by which a client's principal becomes a name (security.auth_to_local); "": DEFAULT
	DefaultRealm string // of the rule DEFAULT
	RemoveHost   bool   // leaves the host of a client's principal out of its name
	RemoveRealm  bool   // leaves the realm out
	ClockSkew    time.Duration
}

// NewAcceptor returns what clients log in to. It reads the keytab, which must have a key of the principal. log may be nil; it is called
// for a keytab that was replaced, with the reason if it cannot be used.
func (k *Kerberos) NewAcceptor(log func(error)) (*kerberos.Acceptor, error) {
	service, err := kerberos.ParsePrincipal(k.Principal, k.DefaultRealm)
	if err != nil {
		return nil, err
	}
	rules, err := kerberos.ParseRules(k.Rules)
	if err != nil {
		return nil, err
	}
	acceptor, err := kerberos.NewAcceptor(kerberos.Config{
		Service: service, ClockSkew: k.ClockSkew, Log: log,
		Names: kerberos.Names{Rules: rules, DefaultRealm: k.DefaultRealm, RemoveHost: k.RemoveHost, RemoveRealm: k.RemoveRealm},
		ReadKeytab: func() ([]byte, error) {
			f, err := secretfile.ReadTrustedFile(k.KeytabFile, kerberos.MaxKeytab)
			return f.Text, err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("keytab %s: %w", k.KeytabFile, err)
	}
	return acceptor, nil
}

// kerberosLogins are the logins of clients by Kerberos, with the log lines about those that fail.
type kerberosLogins struct {
	acceptor *kerberos.Acceptor
	log      *slog.Logger
	limiters [kerberos.NumFaults]*admission.LogLimiter
}

// newKerberosLogins returns nil if Kerberos is not served.
func newKerberosLogins(k Kerberos, log *slog.Logger) (*kerberosLogins, error) {
	if k.KeytabFile == "" {
		return nil, nil
	}
	l := &kerberosLogins{log: log}
	for i := range l.limiters {
		l.limiters[i] = admission.NewLogLimiterOf(faultLogInterval)
	}
	var err error
	l.acceptor, err = k.NewAcceptor(func(err error) {
		if err != nil {
			log.Warn("the keytab was replaced and cannot be used, so the keys before it stay", "keytab", k.KeytabFile, "err", err)
			return
		}
		log.Info("keytab replaced", "keytab", k.KeytabFile, "principal", k.Principal)
	})
	return l, err
}

// add logs why a client's login failed, if the last line about such a fault is old enough. Programs retry.
func (l *kerberosLogins) add(fault *kerberos.Error, client net.Addr, session jute.SessionID) {
	if unlogged, due := l.limiters[fault.Fault].AllowLine(time.Now()); due {
		l.log.Warn("Kerberos login failed", "client", client, "session", session, "fault", fault.Fault.String(), "reason", fault.Text, "unlogged", unlogged)
	}
}
