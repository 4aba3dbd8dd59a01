// Package load runs the clients of a drill, and collects their requests, replies and observations as judge.Evidence.
// It uses nothing that only Rollcall has, so it runs against ZooKeeper and ClickHouse Keeper, too.
//
// There is one file for each kind of client:
//
//	probe.go   probers, one pinned to each member and one that may use any, write and read a key of their own
//	write.go   writers create sequential nodes with unique names, and set shared keys
//	read.go    readers read the shared keys, and move from member to member
//	hold.go    holders have a session with an ephemeral node, which observe.go lists
//	lock.go    contenders take a lock in turn, and ask Held
//	watch.go   watchers watch the shared keys with watches that fire once
//	silent.go  silent clients open a session, and send nothing more
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"rollcall/client/session"
	"rollcall/lab/result"
)

// Config has the numbers of clients. A number that is 0 gets its default; a negative one means none.
type Config struct {
	Servers []result.Member // at least one
	Chroot  string          // everything is below this node, such as /drill-7. It is created if it does not exist
	Timeout time.Duration   // of the sessions, to request; 0: DefaultTimeout
	Tick    time.Duration   // of the ensemble, for the judge's slack; 0: unknown
	Seed    uint64          // of all random choices

	Sessions   int // holders; default 20
	Writers    int // default 2
	Readers    int // default 2
	Watchers   int // default 2
	Contenders int // default 3

	// Interval is the time between two requests of a prober; 0: DefaultInterval. Writers and readers take twice that.
	Interval time.Duration

	TLS      *tls.Config                                                          // nil: no TLS
	DialConn func(ctx context.Context, network, address string) (net.Conn, error) // nil: a net.Dialer
	Clock    session.Clock                                                        // nil: that of client.Config. Tests set it
}

// These are the defaults of Config.
const (
	DefaultTimeout  = 6 * time.Second
	DefaultInterval = 10 * time.Millisecond
)

// These limits bound the memory and the nodes of a load. A record takes about 100 bytes. The limits are reached after
// more than ten minutes with the defaults. Later records are counted in judge.Evidence.Dropped.
const (
	maxSessions = 50_000
	maxPuts     = 500_000 // of all keys
	maxCreates  = 100_000 // writers create no nodes any more after that
	maxReads    = 500_000
	maxSteps    = 500_000
	maxHolds    = 50_000
	maxCounts   = 20_000 // samples of result.SessionCount, four in a second
	maxSilent   = 10_000 // sockets of silent clients
)

// maxOpening limits the holders that open a session at the same time. Servers limit that themselves, and thousands of
// dials at once would make the first ones time out.
const maxOpening = 128

// minInterval keeps a load from taking all of an ensemble's time.
const minInterval = time.Millisecond

func (cfg *Config) setDefaults() error {
	if len(cfg.Servers) == 0 {
		return errors.New("load: there are no servers: at least one is needed")
	}
	if !strings.HasPrefix(cfg.Chroot, "/") || len(cfg.Chroot) < 2 || strings.HasSuffix(cfg.Chroot, "/") {
		return fmt.Errorf("load: the chroot is %q, and must be a path below the root, such as /drill", cfg.Chroot)
	}
	for n, d := range map[*int]int{
		&cfg.Sessions: 20, &cfg.Writers: 2, &cfg.Readers: 2, &cfg.Watchers: 2,
		&cfg.Contenders: 3,
	} {
		if *n == 0 {
			*n = d
		}
		*n = max(0, *n)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Interval <= 0 {
		cfg.Interval = DefaultInterval
	}
	cfg.Interval = max(cfg.Interval, minInterval)
	if cfg.DialConn == nil {
		cfg.DialConn = (&net.Dialer{}).DialContext
	}
	return nil
}

// connectString returns the connect string with all servers.
func (cfg *Config) connectString() string {
	var list []string
	for _, m := range cfg.Servers {
		list = append(list, m.Clients)
	}
	return strings.Join(list, ",") + cfg.Chroot
}

// memberName returns the name of the member with an address, or the address.
func (cfg *Config) memberName(address string) string {
	for _, m := range cfg.Servers {
		if m.Clients == address {
			return m.Name
		}
	}
	return address
}
