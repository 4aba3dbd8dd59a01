package rollcalltest

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"rollcall/config"
	"rollcall/leader"
	"rollcall/server"
	"rollcall/znode"
)

// MaxServers is the largest number of servers of an ensemble. More add nothing to a test, and each costs memory.
const MaxServers = 9

// SuperDigest is the entry of the super user in every server: the user is super, and the password is secret.
const SuperDigest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="

// These are the defaults of Config.
const (
	// DefaultTick makes silent sessions expire soon.
	DefaultTick = 200 * time.Millisecond
	// DefaultMaxSessionTimeout is enough for the default of every known client library.
	DefaultMaxSessionTimeout = time.Minute
)

// heartbeatTimeout is the time without a heartbeat after which a server stands for election. It is longer than a busy
// machine holds a process up. The death of a leader is noticed at once nevertheless, because its connections end.
const heartbeatTimeout = 500 * time.Millisecond

// Config has the settings of one server or of an ensemble. The zero value is ready for use.
type Config struct {
	// Pipes makes clients connect by Dial, over memory, and opens no port. It is necessary in a testing/synctest
	// bubble. Default: TCP on 127.0.0.1.
	Pipes bool

	// Port is the TCP port of the first server. The others have the next ones. Default: free ports.
	Port int

	// Tick is ZooKeeper's tickTime: a silent session expires at most one tick after its timeout. It must be at least
	// 10 ms. Default: DefaultTick.
	Tick time.Duration

	// MinSessionTimeout and MaxSessionTimeout limit the session timeouts that clients get. Default: two ticks, and
	// DefaultMaxSessionTimeout.
	MinSessionTimeout, MaxSessionTimeout time.Duration

	// OnRequest is called for each request of a client. See Faults.OnRequest.
	OnRequest func(Request) Verdict

	// Settings changes the settings of each server after all others, before the server's first start. Default: no
	// change.
	Settings func(*config.Settings)

	// Logger gets the log lines of the servers. Default: they are discarded.
	Logger *slog.Logger
}

// minTick is the shortest tick. With a shorter one, the servers do little else than heed it.
const minTick = 10 * time.Millisecond

// checkSettings returns an error if a setting is invalid, and sets the defaults.
func (c *Config) checkSettings(servers int) error {
	switch {
	case servers < 1 || servers > MaxServers:
		return fmt.Errorf("rollcalltest: %d servers must be 1 to %d", servers, MaxServers)
	case c.Port < 0 || c.Port+servers-1 > maxPort:
		return fmt.Errorf("rollcalltest: Port %d must be 1 to %d, or 0 for free ports", c.Port, maxPort-servers+1)
	case c.Port > 0 && c.Pipes:
		return errors.New("rollcalltest: Pipes opens no port: leave out Port")
	case c.Tick != 0 && c.Tick < minTick:
		return fmt.Errorf("rollcalltest: Tick %v must be at least %v, or 0 for %v", c.Tick, minTick, DefaultTick)
	case c.MinSessionTimeout < 0 || c.MaxSessionTimeout < 0:
		return errors.New("rollcalltest: MinSessionTimeout and MaxSessionTimeout must not be negative")
	}
	c.Tick = cmp.Or(c.Tick, DefaultTick)
	c.MinSessionTimeout = cmp.Or(c.MinSessionTimeout, 2*c.Tick)
	c.MaxSessionTimeout = cmp.Or(c.MaxSessionTimeout, max(DefaultMaxSessionTimeout, c.MinSessionTimeout))
	if c.MinSessionTimeout > c.MaxSessionTimeout {
		return fmt.Errorf("rollcalltest: MinSessionTimeout %v is more than MaxSessionTimeout %v", c.MinSessionTimeout,
			c.MaxSessionTimeout)
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return nil
}

const maxPort = 65535

// serverSettings returns the settings of a server.
func (c *Config) serverSettings() config.Settings {
	s := config.Settings{
		Tick: c.Tick, HeartbeatTimeout: heartbeatTimeout,
		MinTimeout: c.MinSessionTimeout, MaxTimeout: c.MaxSessionTimeout,
		SuperDigest: SuperDigest, CommandWhitelist: []string{"*"},
		Limits:  server.Limits{MaxClientConns: -1}, // tests open many from one address
		Reaping: leader.Reaping{Interval: c.Tick},
		Rules:   znode.Rules{TTLNodes: true},
	}.WithDefaults()
	if c.Settings != nil {
		c.Settings(&s)
	}
	return s
}
