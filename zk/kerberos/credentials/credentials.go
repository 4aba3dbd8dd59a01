// Package credentials gets tickets from a KDC, by which a client of package client logs in with Kerberos:
//
//	who := credentials.New(credentials.Config{Keytab: "/etc/app.keytab", Principal: "app@EXAMPLE.COM"})
//	c, err := client.Dial(ctx, servers, client.Config{Login: who})
//
// The requests of Credentials are those of github.com/jcmturner/gokrb5. A server that only takes tickets needs none of them, and package
// client neither. Services gets tickets for the members of an ensemble, which need them of each other.
package credentials

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/keytab"

	"rollcall/zk/kerberos"
)

const (
	// DefaultService is the name of a server's service, before a slash and its host.
	DefaultService = "zookeeper"
	// maxTickets limits the tickets that are kept. A client has one for each server.
	maxTickets = 64
	// ticketUse is the time for which a ticket is used again, so that clients that reconnect do not all ask the KDC. Tickets live for
	// hours, and servers accept one for as long after its end by default.
	ticketUse = 5 * time.Minute
)

// Config configures Credentials. With Keytab they are those of Principal, and otherwise those of the cache that kinit fills.
type Config struct {
	Keytab    string // path of a keytab
	Principal string // client's, such as app@EXAMPLE.COM; without a realm: of default_realm
	Cache     string // path of a cache of tickets; "": that of KRB5CCNAME, or else /tmp/krb5cc_ and the user's number
	Krb5Conf  string // path of krb5.conf; "": that of KRB5_CONFIG, or else /etc/krb5.conf
	// ServerPrincipal is the principal of every server, such as zookeeper/host or zookeeper/host@REALM. If it is empty, it is
	// DefaultService with the host of the address that the client connects to, so addresses must have the names that the servers'
	// principals have.
	ServerPrincipal string
}

// Credentials prove who a client is. Make them with New. They are safe for concurrent use. The files are read, and the KDC is asked,
// when a client logs in: a new keytab or a new kinit counts at the next login.
type Credentials struct {
	cfg Config

	mu      sync.Mutex
	tickets map[string]*heldTicket // by the server's principal
}

// heldTicket is a ticket that may be used again.
type heldTicket struct {
	kerberos.Ticket
	since     time.Time
	wasUseful bool // a server has accepted it
}

// New returns credentials. It reads nothing yet.
func New(cfg Config) *Credentials { return &Credentials{cfg: cfg, tickets: map[string]*heldTicket{}} }

// String describes the client for errors.
func (c *Credentials) String() string {
	if c.cfg.Principal != "" {
		return "Kerberos principal " + c.cfg.Principal
	}
	return "the principal of the cache of Kerberos tickets"
}

// Begin begins a login at a server, whose address is a host and a port. step takes the server's reply to the last token, nil at first,
// and returns the next token. If done, the server has accepted the login, and there is no next token.
//
// Begin may ask the KDC, and returns when ctx ends, although the request continues for up to some seconds.
func (c *Credentials) Begin(ctx context.Context, server string) (step func(answer []byte) (token []byte, done bool, err error), err error) {
	principal := c.cfg.ServerPrincipal
	if principal == "" {
		host, _, err := net.SplitHostPort(server)
		if err != nil || strings.HasPrefix(server, "unix:") {
			return nil, fmt.Errorf("kerberos: the server %q has no host of which its principal could be; set ServerPrincipal", server)
		}
		principal = DefaultService + "/" + strings.ToLower(host)
	}
	ticket := c.held(principal)
	if ticket == nil {
		found := make(chan error, 1)
		go func() {
			var err error
			ticket, err = c.request(principal)
			found <- err
		}()
		select {
		case err := <-found:
			if err != nil {
				return nil, fmt.Errorf("kerberos: a ticket for %s: %w", principal, err)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("kerberos: a ticket for %s: %w", principal, ctx.Err())
		}
		c.hold(principal, ticket)
	}
	login, err := kerberos.NewLogin(ticket.Ticket)
	if err != nil {
		return nil, err
	}
	return func(answer []byte) (token []byte, done bool, err error) {
		token, done, err = login.Step(answer)
		if done {
			c.mu.Lock()
			ticket.wasUseful = true
			c.mu.Unlock()
		}
		return token, done, err
	}, nil
}

// held returns a young ticket that a server has accepted, or nil. One that was not accepted may be encrypted with a key that the server
// has no more.
func (c *Credentials) held(principal string) *heldTicket {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tickets[principal]
	if t == nil || !t.wasUseful || time.Since(t.since) >= ticketUse {
		return nil
	}
	t.wasUseful = false // until this login has ended well
	return t
}

func (c *Credentials) hold(principal string, t *heldTicket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tickets) >= maxTickets {
		clear(c.tickets)
	}
	c.tickets[principal] = t
}

// request gets a ticket from the KDC. Principals in errors are those that the operator has set.
func (c *Credentials) request(server string) (*heldTicket, error) {
	conf, err := c.loadConf()
	if err != nil {
		return nil, err
	}
	kdc, err := c.open(conf)
	if err != nil {
		return nil, err
	}
	defer kdc.Destroy() // also what renews its own ticket in the background
	if err := kdc.AffirmLogin(); err != nil {
		return nil, err
	}
	name, realm, hasRealm := strings.Cut(server, "@")
	if hasRealm && conf.DomainRealm != nil {
		if _, host, ok := strings.Cut(name, "/"); ok {
			conf.DomainRealm[strings.ToLower(host)] = realm
		}
	}
	t, session, err := kdc.GetServiceTicket(name)
	if err != nil {
		return nil, err
	}
	encoded, err := t.Marshal()
	return &heldTicket{since: time.Now(), Ticket: kerberos.Ticket{
		Encoded: encoded, SessionKey: session, Client: kdc.Credentials.CName(), Realm: kdc.Credentials.Realm(),
	}}, err
}

func (c *Credentials) loadConf() (*config.Config, error) { return loadConf(c.cfg.Krb5Conf) }

// loadConf reads krb5.conf. If path is empty, it is that of KRB5_CONFIG, or else /etc/krb5.conf.
func loadConf(path string) (*config.Config, error) {
	if path == "" {
		path = os.Getenv("KRB5_CONFIG")
	}
	if path == "" {
		path = "/etc/krb5.conf"
	}
	conf, err := config.Load(path)
	if _, unsupported := errors.AsType[config.UnsupportedDirective](err); unsupported {
		err = nil // includes, for example
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return conf, nil
}

// open returns a client of the KDC with the keytab or the cache.
func (c *Credentials) open(conf *config.Config) (*client.Client, error) {
	options := client.DisablePAFXFAST(true) // Active Directory has no FAST without armour
	if c.cfg.Keytab == "" {
		cache, err := credentials.LoadCCache(c.cachePath())
		if err != nil {
			return nil, fmt.Errorf("the cache of tickets %s: %w", c.cachePath(), err)
		}
		return client.NewFromCCache(cache, conf, options)
	}
	keys, err := keytab.Load(c.cfg.Keytab)
	if err != nil {
		// The library's other errors have the content of the keytab in them.
		if failed, ok := errors.AsType[*os.PathError](err); ok {
			return nil, failed
		}
		return nil, fmt.Errorf("%s is no keytab", c.cfg.Keytab)
	}
	name, realm, hasRealm := strings.Cut(c.cfg.Principal, "@")
	if !hasRealm {
		realm = conf.LibDefaults.DefaultRealm
	}
	if name == "" || realm == "" {
		return nil, fmt.Errorf("the principal %q needs a name and a realm", c.cfg.Principal)
	}
	return client.NewWithKeytab(name, realm, keys, conf, options), nil
}

func (c *Credentials) cachePath() string {
	path := c.cfg.Cache
	if path == "" {
		path = os.Getenv("KRB5CCNAME")
	}
	if path == "" {
		path = fmt.Sprint("/tmp/krb5cc_", os.Getuid())
	}
	return strings.TrimPrefix(path, "FILE:")
}
