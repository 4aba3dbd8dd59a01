// Package client is a client of Rollcall and of ZooKeeper.
//
// Dial opens a session. The Client keeps it over as many connections as it takes. A session has a timeout: if the
// ensemble does not hear from the client for that long, it ends the session and deletes its ephemeral nodes.
//
//	c, err := client.Dial(ctx, "h1:2181,h2:2181,h3:2181/app", client.Config{})
//	if err != nil {
//		return err
//	}
//	defer c.Close(ctx)
//	data, stat, err := c.Get(ctx, "/settings")
//
// # Calls
//
// Each call checks its paths before it sends anything: the error of a path that no node may have is ErrBadArguments.
//
// Each call has a context and returns when that ends; a reply that comes later is dropped. Its error is an *Error
// with the operation and the path. errors.Is finds the reason, such as ErrNoNode, and MayHaveHappened reports
// whether a write may have been carried out although it failed. The Client sends a read again if the connection
// breaks. It never sends a write twice.
//
// While there is no connection, the session is suspended. Calls then wait for a connection until their context
// ends, or fail at once: see Config.WhileSuspended.
//
// # Rights
//
// A session is a right: to hold a lock, to be the leader. The network may not carry the news that a session has ended.
// So a client decides that by itself: it may act on its session until the time at which it sent the last request that
// was answered, plus the timeout, less a margin. Held reports whether it may, at the moment of the call. The clock
// continues while the machine is suspended.
//
// # Functions and iterators that end
//
// One rule holds for a function that outlives what it works with (Keep, election.Keep, group.SharePartitions): if it
// returns before its context has ended, the call ends with its error, which may be nil. One rule holds for iterators
// with an error: when ctx or the session ends, the last pair has the error. States has no errors, and just ends.
//
// # Concurrency
//
// A Client is safe for concurrent use. Config.OnState runs on a goroutine of its own, and may call the Client. All
// other functions that a Config or a call gets run on the Client's reader unless their comment says otherwise. They
// must not block, and of the Client they may only use a Pipeline and what needs no server. A call inside OnEvent or
// OnPong fails at once with ErrInCallback. A call inside another one of them, such as a function of a Pipeline or
// DialConn, waits for itself until its context ends.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"rollcall/client/session"
	"rollcall/zk/jute"
)

// DefaultTimeout is the session timeout that a client requests if its Config has none. Servers may grant another.
const DefaultTimeout = session.DefaultTimeout

// DefaultPort is the port of servers whose entry has none, ZooKeeper's.
const DefaultPort = 2181

// These are the default and the greatest value of Config.MaxRequest.
const (
	DefaultMaxRequest = session.DefaultMaxRequest
	MaxRequest        = session.MaxRequest
)

// NeverGiveUp is a value of Config.GiveUpAfter.
const NeverGiveUp = session.NeverGiveUp

// Config configures a Client. The zero value connects over TCP, with DefaultTimeout and no identity. From
// Dial on, its slices and maps belong to the Client.
type Config struct {
	// Timeout is the session timeout to request; 0: DefaultTimeout. Servers raise or lower it to their limits. A session
	// that Resume continues keeps its own timeout.
	Timeout time.Duration

	TLS   *tls.Config // nil: no TLS. An empty ServerName becomes the server's host
	Login Mechanism   // the login by SASL, first on every connection: a *Login, or Kerberos; nil: none
	Auth  []Auth      // identities to send first on every connection, after the login

	// WhileSuspended decides over calls while there is no connection.
	WhileSuspended SuspendedPolicy

	// AllowReadOnly admits servers that have no leader: see session.Config.
	AllowReadOnly bool

	// InOrder tries the servers in the order of the list. Otherwise the Client draws an order, so that the clients
	// of an ensemble spread over its servers.
	InOrder bool

	// Margin is the time from the end of the Client's right to its session to the end of the timeout; 0: a tenth of the
	// timeout, which makes up for clocks whose speeds differ by 10 %.
	Margin time.Duration

	// GiveUpAfter bounds the attempts to resume the session after the last request that was answered had been
	// sent; 0: 4/3 of the timeout. Then it declares the session expired. If it is negative, it tries until a server says
	// that the session has expired: sessions outlive an outage of the whole ensemble.
	GiveUpAfter time.Duration

	// Clock is the clock by which rights end. If it is nil, it is one like session.BootTime, or the bubble's clock in a
	// bubble of testing/synctest.
	Clock session.Clock

	// Resume continues the session of another process instead of opening a new one: see Client.HandOver.
	Resume *Handover

	// MaxInFlight limits the requests without a reply; 0: session.DefaultMaxInFlight. Calls above it wait.
	MaxInFlight int

	// MaxRequest limits a request, in bytes; 0: DefaultMaxRequest, ZooKeeper's 1,048,575. A call with a longer one fails
	// with ErrTooLong before anything is sent. A server would close the connection, and all other calls on it would fail,
	// too. If the servers accept more, set it to their jute.maxbuffer.
	MaxRequest int

	Resolver session.Resolver // resolves entries such as srv:_zookeeper._tcp.example.com; nil: net.DefaultResolver

	// DialConn opens a connection. network is "tcp" or "unix". It must return when ctx ends. nil: a net.Dialer.
	DialConn func(ctx context.Context, network, address string) (net.Conn, error)

	// OnState is called with the changes of the session's state, in order, on a goroutine of its own. It may block and
	// may call the Client; the state may then be a later one. If it is 64 changes behind, it misses the oldest ones; it
	// never misses the last one. nil: nothing is.
	OnState func(StateChange)

	// OnEvent is called with every event that the servers send for a watch of the session, in order, before the watch
	// gets it, and before later replies. It must not block. A call of the Client inside it fails with ErrInCallback, but
	// a Pipeline may send. nil: nothing is.
	OnEvent func(Event)

	// OnPong is called with the round-trip time of each ping, under the rules of OnEvent. nil: nothing is.
	OnPong func(time.Duration)

	// Observer sees every call; nil: none does. See Observer for metrics and traces.
	Observer Observer

	Logger *slog.Logger // nil: no log
}

// Mechanism is a way to log in by SASL: a *Login, or one of another package, such as rollcall/zk/kerberos/credentials.
type Mechanism = session.Mechanism

// Login is a user who logs in by SASL with the mechanism DIGEST-MD5.
type Login = session.Login

// SuspendedPolicy decides over calls while there is no connection.
type SuspendedPolicy int

const (
	Wait SuspendedPolicy = iota // for a connection, until the call's context ends
	Fail                        // at once, with ErrSuspended
)

// Client holds one session. Dial makes one.
type Client struct {
	session   *session.Session
	chroot    chroot
	observer  Observer
	policy    SuspendedPolicy
	states    states
	callbacks callbacks
	watches   watchTable

	inheritedUntil Zxid // the last one that the predecessor has seen, if the session was handed over

	recipes recipeState

	background sync.WaitGroup // goroutines that end with the session
}

// Dial connects to one of servers, and returns when the session exists and its identities are accepted. It tries
// the servers in turn until ctx ends, so give ctx a deadline.
//
// servers is a list such as "h1:2181,h2:2181/app". The path after it is the chroot: the node that all paths of the
// Client begin at. Dial does not create it, and fails with ErrNoNode if it is missing. To learn that, it sends an
// exists. An address without a port has DefaultPort. See ParseServers for the other forms.
//
// If ctx ends first, the error is ctx's, with the last failure. It is ErrExpired if the session to resume is gone,
// and ErrAuthFailed if the login or an identity is rejected.
func Dial(ctx context.Context, servers string, cfg Config) (*Client, error) {
	return dialSession(ctx, servers, cfg, func(StateChange) {})
}

// dialSession is Dial. The reader calls onEnd with the final state.
func dialSession(ctx context.Context, servers string, cfg Config, onEnd func(StateChange)) (*Client, error) {
	list, path, err := ParseServers(servers, DefaultPort)
	if err != nil {
		return nil, fmt.Errorf("client: servers %.200q: %w", servers, err)
	}
	if path != "" && !jute.ValidPath(path) {
		return nil, fmt.Errorf("client: servers %.200q: the chroot %.200q is not a path of a node", servers, path)
	}
	if cfg.Resume != nil && cfg.Resume.Password == nil {
		return nil, fmt.Errorf("client: dial %.200s: resume session %v: %w", servers, cfg.Resume.Session, ErrHandoverGiven)
	}
	root := chroot(path)
	c := &Client{chroot: root, observer: cfg.Observer, policy: cfg.WhileSuspended}
	c.callbacks.onState, c.callbacks.onEvent = cfg.OnState, cfg.OnEvent
	c.states = states{changed: make(chan struct{}), onEnd: onEnd, callbacks: &c.callbacks, watches: &c.watches}
	c.watches = watchTable{c: c, paths: map[string]*pathWatches{}}
	if cfg.Resume != nil {
		c.inheritedUntil = cfg.Resume.LastZxid
	}
	settings := cfg.forSession(list)
	settings.OnState, settings.OnEvent, settings.OnRepeat = c.states.handleChange, c.watches.handleEvent, c.watches.handleRepeat
	if onPong := cfg.OnPong; onPong != nil { // the closure must not keep cfg
		settings.OnPong = func(took time.Duration) { callOnReader(&c.callbacks, onPong, took) }
	}
	if c.session, err = session.Open(ctx, settings); err != nil {
		return nil, fmt.Errorf("client: dial %.200s: %w", servers, err)
	}
	if path != "" && cfg.Resume == nil && lacksChroot(ctx, c) {
		_ = c.Close(ctx) // the session has no nodes, so its end can wait for its timeout
		return nil, fmt.Errorf("client: dial %.200s: the chroot %.200s: %w; create it first, with a client without a chroot",
			servers, path, ErrNoNode)
	}
	return c, nil
}

// lacksChroot reports whether the chroot does not exist. A server may lag, so lacksChroot reads again after a sync. It
// returns false after any other failure, which the Client's first call meets too. No Observer sees its requests: they
// are no calls.
func lacksChroot(ctx context.Context, c *Client) bool {
	exists := jute.ExistsRequest{Path: []byte(c.chroot)}
	for {
		_, err := c.session.Do(ctx, jute.OpExists, exists, nil)
		if errors.Is(err, ErrNoNode) {
			_, err = c.session.Do(ctx, jute.OpSync, jute.SyncRequest{Path: exists.Path}, nil)
			if err == nil {
				_, err = c.session.Do(ctx, jute.OpExists, exists, nil)
			}
		}
		if !errors.Is(err, ErrConnectionLost) {
			return errors.Is(err, ErrNoNode)
		}
	}
}

// ParseServers parses a list of servers in the form of Dial: addresses with commas, such as h1:2181,h2:2181, and a
// chroot after the last one, which is "" for the root. port is the port of addresses without one. If port is 0, each
// address must have its own. ParseServers checks the form of the addresses. It neither resolves them nor checks the
// chroot.
func ParseServers(text string, port int) (servers []string, chroot string, err error) {
	return session.ParseServers(text, port)
}

// ParseHostPorts is ParseServers for programs that need addresses of the form host:port. Other entries are errors.
func ParseHostPorts(text string, port int) (servers []string, chroot string, err error) {
	return session.ParseHostPorts(text, port)
}

// forSession translates a Config for the package session.
func (cfg *Config) forSession(list []string) session.Config {
	s := session.Config{
		Servers: list, Shuffle: !cfg.InOrder, Timeout: cfg.Timeout, Login: cfg.Login, MaxInFlight: cfg.MaxInFlight, MaxRequest: cfg.MaxRequest,
		FailWithoutConnection: cfg.WhileSuspended == Fail, Logger: cfg.Logger,
		TLS: cfg.TLS, Resolver: cfg.Resolver,
		AllowReadOnly: cfg.AllowReadOnly, Margin: cfg.Margin, GiveUpAfter: cfg.GiveUpAfter, Clock: cfg.Clock,
	}
	for _, a := range cfg.Auth {
		s.Auth = append(s.Auth, a.forSession())
	}
	if cfg.Resume != nil {
		s.Resume = cfg.Resume.resumeToken()
		// The time that the predecessor has promised to its rights, and that the next successor counts on.
		s.Timeout = cmp.Or(cfg.Resume.Timeout, s.Timeout)
	}
	if dial := cfg.DialConn; dial != nil {
		s.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			if path, ok := strings.CutPrefix(addr, "unix:"); ok {
				return dial(ctx, "unix", path)
			}
			return dial(ctx, "tcp", addr)
		}
	}
	return s
}

// Close ends the session: the ensemble deletes its ephemeral nodes. It waits for the reply, and without a connection
// for one, until ctx ends. Then the session ends when its timeout has passed. Close also waits until ctx ends for
// OnState to return; OnState itself may call Close, which then does not wait for it. A second Close returns nil, and
// calls after Close return ErrClosed. Whatever Close returns, the Client has ended: no goroutine is left, except one that a function of the caller blocks.
func (c *Client) Close(ctx context.Context) error {
	if err := c.callbacks.checkNotInCallback(); err != nil {
		return err
	}
	err := c.session.Close(ctx)
	awaitBackground(ctx, c)
	if late := c.callbacks.awaitOnState(ctx); err == nil {
		err = late
	}
	return err
}

// awaitBackground waits for the goroutines that end with the session, as session.Close waits for its reader.
func awaitBackground(ctx context.Context, c *Client) {
	ended := make(chan struct{})
	go func() {
		c.background.Wait()
		close(ended)
	}()
	session.AwaitEnd(ctx, ended)
}

// Abandon ends the Client without a word to the ensemble: the session lives until its timeout has passed, or until
// another Client resumes it. When Abandon returns, no goroutine is left, except that of OnState, which Abandon does not
// wait for. Inside OnEvent and OnPong it returns at once, and the Client ends after them.
func (c *Client) Abandon() {
	if c.callbacks.checkNotInCallback() != nil {
		go c.session.Abandon()
		return
	}
	c.session.Abandon()
	c.background.Wait()
}

// Session returns the session's id and its timeout as the servers granted it.
func (c *Client) Session() (SessionID, time.Duration) {
	id, timeout := c.session.Identity()
	return SessionID(id), timeout
}

// LastZxid returns the greatest zxid in a reply so far. The servers had carried out that transaction when they sent it.
func (c *Client) LastZxid() Zxid { return Zxid(c.session.LastZxid()) }

// Server returns the address of the server that the Client is connected to, or "" while there is none.
func (c *Client) Server() string { return c.session.Server() }

// Chroot returns the path of the node that all paths of the Client begin at, or "" if that is the root.
func (c *Client) Chroot() string { return string(c.chroot) }
