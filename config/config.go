// Package config reads the settings of one member from a zoo.cfg, the variables of ZooKeeper's Docker image, Java
// properties and flags.
//
//   - keys.go has the table: one row per key, with its variable, flag, kind, bounds, default, the field
//     that it sets, and its text in docs/configuration.md. Everything below is driven by it.
//   - Load reads the sources, takes the value of each key from the strongest one, checks it by its row,
//     and then checks the keys against each other.
//   - Check does the same, and reports every key with its value, its source and its faults.
//   - Conf makes the reply to the four-letter command conf.
//
// The package reads files and writes none, except for SaveMyID. It keeps no state, starts no goroutine
// and opens no port.
package config

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/leader"
	"rollcall/operator/admin"
	"rollcall/operator/archive/location"
	"rollcall/operator/audit"
	"rollcall/operator/backup"
	"rollcall/operator/logs"
	"rollcall/operator/otlp"
	"rollcall/quorum/history"
	"rollcall/quorum/trust"
	"rollcall/server"
	"rollcall/zk/digest"
	"rollcall/znode"
)

// Settings are the values of keys in one member. Package member uses them as they are. A field whose comment
// says "required" must be positive: see Settings.WithDefaults. The comment here or at the field's type names
// the default of every other field that is zero.
type Settings struct {
	Dir    string // data directory; Load returns an absolute path
	LogDir string // directory of the log; default Dir

	Tick       time.Duration // must be positive
	InitLimit  int           // in ticks; only conf shows it; required
	SyncLimit  int           // ticks after which the streams of a silent member are closed; required
	MinTimeout time.Duration // bounds of session timeouts; default 2 ticks
	MaxTimeout time.Duration // default 20 ticks

	Limits      server.Limits
	MaxInFlight int              // transactions sent and not yet applied here, over all connections; default 1,000
	SuperDigest string           // "user:digest"; "": there is no super user
	Digest      digest.Algorithm // hashes passwords in the scheme digest; default SHA1
	NoDigest    bool             // the scheme digest is off
	Login       server.Login
	// LinearizableReads makes every read wait until this member has applied all that was acknowledged before: by a lease for reads, or, without
	// one, by a proof that the leader still leads. Rules.ReadLeaseMs has the leases that this member grants while it leads. By default
	// reads may be stale.
	LinearizableReads bool
	ReadOnlyMode      bool        // clients that request it are served without a leader, in sessions that only read
	Rules             znode.Rules // for the terms that this member leads
	CommandWhitelist  []string    // four-letter words served, "*" for all; srvr always is
	SnapCount         uint64      // log entries between snapshots; default 100,000
	// History limits what is kept of the past (quorum/history). Default: nothing is kept.
	History history.Limits
	// HeartbeatTimeout sets the silence after which a member gives up its leader (quorum.Config); required.
	HeartbeatTimeout time.Duration
	// If an operation for which raft waits, or apply, takes longer than StoreStallLimit, this member stops leading and
	// closes its clients' connections; required.
	StoreStallLimit time.Duration
	Slow            SlowThresholds
	// when containers and nodes with a time to live are removed; default: as in ZooKeeper
	Reaping      leader.Reaping
	WatchHistory int64              // bytes of the latest changes, for clients that come back; below 0: none are kept; required
	HTTP         admin.HTTPSettings // what operators reach over HTTP
	Trust        trust.Settings     // how the connections between members are protected; default: they are plain
	ClientTLS    ClientTLS          // for Config.SecureAddr
	SuperSubject string             // the subject of the super user's certificate; "": there is none
	Audit        audit.Settings     // the log of what clients change; default: there is none
	Backup       backup.Schedule    // the backups that this member makes by itself; default: none
	Archive      location.Settings  // the archive that this member sends its log to; default: there is none
	OTLP         otlp.Settings      // the collector that this member sends slow requests and metrics to; default: there is none
	// connections in a second that members close while they have more clients than others; default: none
	AutoRebalance int
	SelfJoin      SelfJoin // how members come into the ensemble by themselves; default: not at all
	NewEnsemble   bool     // bootstrap with a majority of empty members instead of all
}

// SelfJoin says whether members come into the ensemble by themselves.
type SelfJoin struct {
	Auto   bool // this member asks to come in and, while it leads, lets others in
	Voters int  // a leader gives votes to members that came by themselves up to this number of voters; required with Auto
	// Hosts are the hosts from which members may come by themselves. One that begins with "*." has any one label in that place, as in a
	// certificate. Without any, members may come from every host, but only with a secret.
	Hosts []string
}

// HasHost reports whether Hosts has a host.
func (s SelfJoin) HasHost(host string) bool {
	_, err := netip.ParseAddr(host)
	return slices.ContainsFunc(s.Hosts, func(pattern string) bool {
		label, domain, _ := strings.Cut(host, ".")
		return strings.EqualFold(pattern, host) || err != nil && label != "" && strings.EqualFold(pattern, "*."+domain)
	})
}

// checkSelfJoin returns an error if members.join=auto cannot let members in, or could let strangers in: see trust.Settings.CheckNewcomers.
// With certificates it needs the hosts of members, because applications may have certificates of the same authority.
func (c *Config) checkSelfJoin() error {
	switch {
	case !c.SelfJoin.Auto:
		return nil
	case c.Standalone:
		return errors.New("members.join=auto on a standalone server, which no member can join; write its server line and " +
			"standaloneEnabled=false, or leave members.join out")
	}
	if err := c.Trust.CheckNewcomers(); err != nil || !c.Trust.UsesCertificates() || len(c.SelfJoin.Hosts) > 0 {
		return err
	}
	return errors.New("members.join=auto with certificates between members needs members.join.hosts, or every certificate of their authority, " +
		"an application's too, could become a member; set it to the hosts for which the authority certifies members alone, such as " +
		"*.members.example.org, or leave members.join out")
}

// SlowThresholds are the least durations of what is recorded as slow.
type SlowThresholds struct {
	Request time.Duration // of a client's request; default: the greater of 100 ms and a tenth of a tick
	Read    time.Duration // of a request that is neither of the next two; default: Request
	Write   time.Duration // of a write, a create or a multi; default: Request
	Session time.Duration // of a ping or the end of a session; default: Request
	Sync    time.Duration // of a write of the log, until it is on disk; default 1 s
}

// Config is the configuration of one member, checked and complete: a value that no source sets has its default.
type Config struct {
	Settings

	MyID           uint32          // 1 to 255; 1 for a standalone server without myid and without server line
	IDSource       string          // the source of MyID: a file, a variable or a flag
	Servers        serverlist.List // none or one for a standalone server
	Standalone     bool
	ClientAddr     string // host:port where clients connect; "" for none, port 0 for any
	SecureAddr     string // host:port where clients connect over TLS; "" for none, port 0 for any
	Keys           []Key  // every key in the order of the table, and then those that are unknown
	ListenOnAllIPs bool   // listen for members on all interfaces, not on the host of this member's line
	Log            logs.Settings
	Memory         MemoryLimit // of this process

	idToSave uint32 // SaveMyID writes it to Dir/myid; 0: nothing
}

// MemoryLimit is the memory that this process may use before it rejects writes that add data. If both
// fields are 0, there is no limit.
type MemoryLimit struct {
	Bytes   int64
	Percent int // of the memory that the process may use; wins over Bytes
}

// BindAddress returns the address to listen on for an advertised address of this member.
func (c *Config) BindAddress(addr string) string {
	if !c.ListenOnAllIPs {
		return addr
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr // the error of listening there names what is wrong with it
	}
	return net.JoinHostPort("", port)
}
