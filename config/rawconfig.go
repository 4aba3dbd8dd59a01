package config

import (
	"cmp"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rollcall/internal/keystore"
	"rollcall/internal/serverlist"
	"rollcall/server"
)

// rawConfig is a Config that is not complete yet.
type rawConfig struct {
	Config
	name     string // the main source's name: errors about what is missing begin with it
	vars     environ
	flags    Flags
	where    map[string]string // key → where it was set
	outcomes []outcome         // of all settings, in order
	warnings []Warning
	exposed  map[string]string // key → what is said of its file, which others may read

	client, secure    listener
	admin, metrics    listener
	login             loginKeys
	enabledProtocols  keystore.ServerTerms
	standaloneEnabled bool
	observes          bool // peerType=observer
	idFromHost        bool
	dynamicFile       string
}

// listener holds the keys of one port. Those of clients have no key that enables them.
type listener struct {
	enabled bool
	host    string
	port    int // -1: not set
}

// loginKeys are the keys about logins.
type loginKeys struct {
	jaasFile, jaasSection    string
	requireSASL, enforceAuth bool
	schemes                  []string // that enforceAuth accepts
}

// newRawConfig returns a rawConfig in which every key that is served has its default.
func newRawConfig(name string, vars environ, flags Flags, warnings []Warning) *rawConfig {
	d := &rawConfig{
		name: name, vars: vars, flags: flags, warnings: warnings, where: make(map[string]string), exposed: make(map[string]string),
		client: listener{host: serverlist.AllHosts, port: -1}, secure: listener{host: serverlist.AllHosts, port: -1},
	}
	d.NewEnsemble = flags.newEnsemble
	for i := range keys {
		k := &keys[i]
		if k.status != served || k.def == "" {
			continue
		}
		if err := k.parse(d, setting{key: k.name, value: k.def}); err != nil {
			panic("config: the default of " + k.name + ": " + err.Error()) // the table is wrong, and no input leads here
		}
	}
	return d
}

func (d *rawConfig) warn(where, format string, args ...any) {
	d.warnings = append(d.warnings, Warning{Where: where, Text: fmt.Sprintf(format, args...)})
}

// accept checks the settings one by one and keeps their values. It returns an error for each that is
// wrong.
func (d *rawConfig) accept(list []setting) (failed []error) {
	for _, s := range list {
		d.where[s.key] = s.where
		o := outcome{setting: s, key: lookup(s.key)}
		if o.key == nil {
			d.warn(s.where, "unknown key %s", Brief(s.key))
		} else if o.warning, o.err = o.key.accept(d, s); o.err != nil {
			failed = append(failed, o.err)
		} else if o.warning != "" {
			d.warnings = append(d.warnings, Warning{Where: s.where, Text: o.warning, NoEffect: Brief(s.key)})
		}
		d.outcomes = append(d.outcomes, o)
	}
	return failed
}

// finish checks what concerns several settings, and sets the values that follow from them. finishLogin does
// that for logins.
func (d *rawConfig) finish() error {
	for _, step := range []func() error{
		d.finishSecrets, d.finishDigest, d.finishDirectories, d.finishTimes, d.readDynamic, d.finishServers, d.finishID, d.finishPeerType, d.finishMembers, d.finishClient, d.finishSecure, d.finishTLS, d.finishAdmin, d.finishAudit, d.finishReadOnly,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// at returns where a key was set, or the name of the main source.
func (d *rawConfig) at(key string) string { return cmp.Or(d.where[key], d.name) }

func (d *rawConfig) finishDirectories() error {
	if d.Dir == "" {
		return fmt.Errorf("%s: dataDir is not set; set dataDir=PATH, or give --data PATH", d.name)
	}
	d.LogDir = cmp.Or(d.LogDir, d.Dir)
	for _, dir := range []*string{&d.Dir, &d.LogDir} {
		absolute, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		*dir = absolute
	}
	return nil
}

func (d *rawConfig) finishTimes() error {
	d.MinTimeout = cmp.Or(d.MinTimeout, server.DefaultMinTicks*d.Tick)
	d.MaxTimeout = cmp.Or(d.MaxTimeout, server.DefaultMaxTicks*d.Tick)
	if d.MinTimeout > d.MaxTimeout {
		where := cmp.Or(d.where["minSessionTimeout"], d.at("maxSessionTimeout"))
		return fmt.Errorf("%s: minSessionTimeout is %d ms, maxSessionTimeout %d ms: allowed is minimum up to maximum",
			where, d.MinTimeout.Milliseconds(), d.MaxTimeout.Milliseconds())
	}
	return nil
}

// readDynamic reads the server lines in dynamicConfigFile. Anything else in that file is an error.
func (d *rawConfig) readDynamic() error {
	if d.dynamicFile == "" {
		return nil
	}
	if len(d.Servers) > 0 {
		return fmt.Errorf("%s: with dynamicConfigFile, server lines stand there alone; move server.%d from %s into that file",
			d.at("dynamicConfigFile"), d.Servers[0].ID, d.at(fmt.Sprintf("server.%d", d.Servers[0].ID)))
	}
	lines, err := readZooCfg(d.dynamicFile)
	if err != nil {
		return fmt.Errorf("%s: dynamicConfigFile: %w", d.at("dynamicConfigFile"), withAdvice(err, "it must name a file that this user may read"))
	}
	var all settings
	if err := all.add(lines); err != nil {
		return err
	}
	for _, s := range all.list {
		if k := lookup(s.key); k == nil || !slices.Contains([]string{"server.N", "group.N", "weight.N"}, k.name) {
			return fmt.Errorf("%s: %s: allowed are server lines only", s.where, Brief(s.key))
		}
	}
	if failed := d.accept(all.list); len(failed) > 0 {
		return failed[0]
	}
	if len(d.Servers) == 0 {
		return fmt.Errorf("%s: no server line in it; write one for each member", d.dynamicFile)
	}
	return nil
}

// finishServers decides, as ZooKeeper does, whether this is a standalone server or a member of an
// ensemble.
func (d *rawConfig) finishServers() error {
	slices.SortFunc(d.Servers, func(a, b serverlist.Server) int { return cmp.Compare(a.ID, b.ID) })
	voters := len(serverlist.List(d.Servers).Voters())
	if err := d.checkObservers(voters); err != nil {
		return err
	}
	if voters == 0 && !d.standaloneEnabled {
		return fmt.Errorf("%s: standaloneEnabled=false needs a server line; write one, or leave standaloneEnabled out", d.at("standaloneEnabled"))
	}
	d.Standalone = voters == 0 || voters == 1 && d.standaloneEnabled
	if d.Standalone {
		if voters == 1 {
			d.warn(d.name, "one server line: this is a standalone server (standaloneEnabled=false makes an ensemble of one)")
		}
		return nil
	}
	switch {
	case voters == 2:
		d.warn(d.name, "2 members with a vote: the ensemble stops when one of them does")
	case voters%2 == 0:
		d.warn(d.name, "%d members with a vote tolerate no more failures than %d", voters, voters-1)
	}
	for _, limit := range []struct {
		key   string
		ticks int
	}{{"initLimit", d.InitLimit}, {"syncLimit", d.SyncLimit}} {
		if limit.ticks == 0 {
			return fmt.Errorf("%s: %s is not set: an ensemble needs it, 1 to %d ticks", d.at(limit.key), limit.key, maxTicks)
		}
	}
	if err := serverlist.CheckAddresses(d.Servers); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return nil
}

// checkObservers checks that observers have an ensemble to observe. voters is how many of the servers are
// participants.
func (d *rawConfig) checkObservers(voters int) error {
	first := slices.IndexFunc(d.Servers, func(s serverlist.Server) bool { return s.Observer })
	if first < 0 {
		return nil
	}
	id := d.Servers[first].ID
	where := d.at(fmt.Sprintf("server.%d", id))
	switch {
	case voters == 0:
		return fmt.Errorf("%s: all servers are observers, and nobody could vote; write :participant instead of :observer for one or more", where)
	case voters == 1 && d.standaloneEnabled:
		return fmt.Errorf("%s: server.%d is an observer, and a standalone server has none; add standaloneEnabled=false for an ensemble with one vote", where, id)
	}
	return nil
}

// finishPeerType compares peerType with this member's server line. If they differ the line counts, as in ZooKeeper.
func (d *rawConfig) finishPeerType() error {
	where := d.where["peerType"]
	if where == "" {
		return nil
	}
	self, ok := d.Self()
	switch {
	case !d.observes && !self.Observer:
	case !ok || d.Standalone:
		d.warn(where, "peerType=observer has no effect on a standalone server")
	case d.observes && !self.Observer:
		d.warn(where, "peerType=observer, but %v: the server line counts, and this member votes; write :observer there", self)
	case !d.observes:
		d.warn(where, "peerType=participant, but %v: the server line counts, and this member does not vote", self)
	}
	return nil
}

// finishMembers checks that the stores with the certificates of members are named if they are read, and read if the
// first of them is named.
func (d *rawConfig) finishMembers() error {
	if key, err := d.Trust.MissingStore(); err != nil {
		return fmt.Errorf("%s: %w", d.at(key), err)
	}
	const key = "ssl.quorum.keyStore.location"
	if where := d.where[key]; where != "" && !d.Trust.ShowCertificates && !d.Trust.AcceptPlain {
		d.warn(where, key+" has no effect without sslQuorum or portUnification")
	}
	return nil
}

// finishClient sets the address where clients connect.
func (d *rawConfig) finishClient() error {
	if d.client.port < 0 && d.where["clientPortAddress"] != "" {
		return fmt.Errorf("%s: clientPortAddress without clientPort; set clientPort, too", d.at("clientPortAddress"))
	}
	if d.client.port >= 0 {
		d.ClientAddr = join(d.client.host, d.client.port)
	}
	self, _ := d.Self()
	if line := self.ClientAddr(); line != "" {
		same := d.client.port == self.ClientPort && (d.client.host == serverlist.AllHosts || strings.EqualFold(d.client.host, self.ClientHost))
		if d.client.port >= 0 && !same && d.flags.client == "" {
			return fmt.Errorf("%s: clients at %s, but server.%d says %s; make the two agree, or leave clientPort and clientPortAddress out", d.at("clientPort"), d.ClientAddr, self.ID, line)
		}
		d.ClientAddr = line
	}
	if d.flags.client != "" {
		h, port, err := net.SplitHostPort(d.flags.client)
		if err != nil {
			return fmt.Errorf("--client %s: allowed is host:port", Brief(d.flags.client))
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return fmt.Errorf("--client %s: port: allowed is 0 to %d", Brief(d.flags.client), maxPort)
		}
		if h, err = serverlist.ParseHost(cmp.Or(h, serverlist.AllHosts)); err != nil {
			return fmt.Errorf("--client: %w", err)
		}
		d.ClientAddr = join(h, int(n))
	}
	if d.ClientAddr == "" && d.secure.port < 0 {
		d.warn(d.name, "no clientPort: no client can connect here")
	}
	return nil
}

// finishAdmin sets the addresses where operators and collectors are served over HTTP.
func (d *rawConfig) finishAdmin() error {
	if d.admin.enabled {
		d.HTTP.Addr = join(d.admin.host, d.admin.port)
	}
	if d.metrics.enabled {
		d.HTTP.MetricsAddr = join(d.metrics.host, d.metrics.port)
	}
	asks := "admin.forceHttps"
	if !d.HTTP.ForceHTTPS {
		asks = "admin.portUnification"
	}
	switch c := d.Trust.Certificates; {
	case !d.HTTP.ForceHTTPS && !d.HTTP.UnifyPorts:
		if d.HTTP.NeedClientAuth {
			d.warn(d.at("admin.needClientAuth"), "admin.needClientAuth has no effect without admin.forceHttps=true or admin.portUnification=true")
		}
	case c.KeyStore.Location == "":
		return fmt.Errorf("%s: %s=true needs a private key with its certificate; set ssl.quorum.keyStore.location", d.at(asks), asks)
	case d.HTTP.NeedClientAuth && c.TrustStore.Location == "":
		return fmt.Errorf("%s: admin.needClientAuth=true needs authorities that are believed; set ssl.quorum.trustStore.location", d.at("admin.needClientAuth"))
	}
	return nil
}

// finishAudit checks that there is an audit log if lines in it are required, and sets where they go.
func (d *rawConfig) finishAudit() error {
	if d.Audit.Required && !d.Audit.Enable {
		return fmt.Errorf("%s: audit.required=true needs audit.enable=true; set it, or leave audit.required out", d.at("audit.required"))
	}
	switch {
	case !d.Audit.Enable:
	case d.Audit.File == auditStdout:
		d.Audit.File = ""
	case d.Audit.File == "":
		d.Audit.File, d.Audit.OwnDirectory = filepath.Join(d.Dir, "audit", "audit.log"), true
	}
	return nil
}

func join(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
