package config

import (
	"cmp"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"rollcall/internal/keystore"
	"rollcall/internal/serverlist"
	"rollcall/server"
	"rollcall/server/tenant"
)

// rawConfig is a Config that is being read, with what is known of its sources.
type rawConfig struct {
	config        Config // not complete yet
	sourceName    string // of the main source; errors about missing keys begin with it
	environ       environ
	flags         Flags
	setIn         map[string]string // key → where it was set
	outcomes      []keyOutcome      // of all settings, in order
	warnings      []Warning
	readableFiles map[string]string // key → warning that other users can read its file

	clientListener, secureListener listener
	adminListener, metricsListener listener
	loginKeys                      loginKeys
	memberLogin                    memberLogin
	enabledProtocols               keystore.ServerTerms
	standaloneEnabled              bool
	own                            ownServerKeys
	withoutWeight                  []uint32 // servers with weight.N=0
	idFromHost                     bool
	dynamicFile                    string
	sessionlessTimeout             time.Duration // nio.sessionlessCnxnTimeout
	quorumClientsUnproved          bool          // ssl.quorum.clientAuth=none
	hostsUnverified                bool          // ssl.hostnameVerification=false
	requestLimitAsked              int64         // jute.maxbuffer as set, if it is above what is served
	freeID                         uint32        // for a server with the number 0; see lowestFreeID
}

// ownServerKeys are the keys about this member's own server line.
type ownServerKeys struct {
	isObserver bool       // peerType=observer
	line       memberLine // members.line; "": none
}

// listener holds the keys of one port. Client ports have no key that enables them.
type listener struct {
	enabled bool
	host    string
	port    int // -1: not set
}

// loginKeys are the keys about logins.
type loginKeys struct {
	jaasFile, jaasSection    string
	requireSASL, enforceAuth bool
	requireRealm             bool
	krb5File                 string
	acceptedSchemes          []string // that enforceAuth accepts
}

// newRawConfig returns a rawConfig with the default of every served key.
func newRawConfig(name string, vars environ, flags Flags, warnings []Warning) *rawConfig {
	d := &rawConfig{
		sourceName: name, environ: vars, flags: flags, warnings: warnings, setIn: make(map[string]string),
		readableFiles:  make(map[string]string),
		clientListener: listener{host: serverlist.AllHosts, port: -1},
		secureListener: listener{host: serverlist.AllHosts, port: -1},
	}
	d.config.NewEnsemble, d.config.Limits.Tenants = flags.newEnsemble, new(tenant.Limiter)
	for i := range keys {
		k := &keys[i]
		if k.status != served || k.def == "" {
			continue
		}
		if err := k.parseAndStore(d, setting{key: k.name, value: k.def}); err != nil {
			panic("config: the default of " + k.name + ": " + err.Error()) // the table is wrong
		}
	}
	return d
}

func (d *rawConfig) addWarning(where, format string, args ...any) {
	d.warnings = append(d.warnings, Warning{Where: where, Text: fmt.Sprintf(format, args...)})
}

// applySettings checks and stores the settings. It returns an error for each that is wrong.
func (d *rawConfig) applySettings(list []setting) (failed []error) {
	d.freeID = lowestFreeID(list)
	for _, s := range list {
		d.setIn[s.key] = s.where
		o := keyOutcome{setting: s, key: lookupKey(s.key)}
		if o.key == nil {
			d.addWarning(s.where, "unknown key %s", ShortText(s.key))
		} else if o.warning, o.err = o.key.applySetting(d, s); o.err != nil {
			failed = append(failed, o.err)
		} else if o.warning != "" {
			d.warnings = append(d.warnings, Warning{Where: s.where, Text: o.warning, NoEffect: ShortText(s.key)})
		}
		d.outcomes = append(d.outcomes, o)
	}
	return failed
}

// finishAll checks the settings against each other and sets the values that follow from them. finishLogin does
// that for logins.
func (d *rawConfig) finishAll() error {
	for _, step := range []func() error{
		d.checkSecretSources, d.checkSuperDigest, d.setDirectories, d.setSessionTimeouts, d.readDynamic, d.setWeights, d.setStandalone,
		d.setMemberID, d.setMemberLogin,
		d.checkPeerType, d.checkMemberStore, d.setHandshakeTimeout, d.setReadLease, d.setClientAddress, d.setSecureAddress, d.setTLSTerms, d.setOperatorAddresses,
		d.setAuditFile,
		d.checkReadOnlyMode, d.checkCollector, d.checkArchive,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// whereSet returns the place where a key was set, or the name of the main source.
func (d *rawConfig) whereSet(key string) string { return cmp.Or(d.setIn[key], d.sourceName) }

func (d *rawConfig) setDirectories() error {
	if d.config.Dir == "" {
		return fmt.Errorf("%s: dataDir is not set; set dataDir=PATH, or give --data PATH", d.sourceName)
	}
	d.config.LogDir = cmp.Or(d.config.LogDir, d.config.Dir)
	for _, dir := range []*string{&d.config.Dir, &d.config.LogDir} {
		absolute, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("%s: %w", d.sourceName, err)
		}
		*dir = absolute
	}
	return nil
}

func (d *rawConfig) setSessionTimeouts() error {
	d.config.MinTimeout = cmp.Or(d.config.MinTimeout, server.DefaultMinTicks*d.config.Tick)
	d.config.MaxTimeout = cmp.Or(d.config.MaxTimeout, server.DefaultMaxTicks*d.config.Tick)
	if d.config.MinTimeout > d.config.MaxTimeout {
		where := cmp.Or(d.setIn["minSessionTimeout"], d.whereSet("maxSessionTimeout"))
		return fmt.Errorf("%s: minSessionTimeout is %d ms, maxSessionTimeout %d ms: the minimum must not exceed the maximum",
			where, d.config.MinTimeout.Milliseconds(), d.config.MaxTimeout.Milliseconds())
	}
	return nil
}

// readDynamic reads the server lines in dynamicConfigFile. Anything else in that file is an error.
func (d *rawConfig) readDynamic() error {
	if d.dynamicFile == "" {
		return nil
	}
	if len(d.config.Servers) > 0 {
		return fmt.Errorf("%s: with dynamicConfigFile, server lines stand there alone; move server.%d from %s into that file",
			d.whereSet("dynamicConfigFile"), d.config.Servers[0].ID, d.whereSet(fmt.Sprintf("server.%d", d.config.Servers[0].ID)))
	}
	lines, err := readZooCfg(d.dynamicFile)
	if err != nil {
		return fmt.Errorf("%s: dynamicConfigFile: %w", d.whereSet("dynamicConfigFile"),
			withAdvice(err, "it must name a file that this user may read"))
	}
	var all settings
	if err := all.overrideWith(lines); err != nil {
		return err
	}
	for _, s := range all.list {
		if k := lookupKey(s.key); k == nil || !slices.Contains([]string{"server.N", "group.N", "weight.N"}, k.name) {
			return fmt.Errorf("%s: %s: must be a server line", s.where, ShortText(s.key))
		}
	}
	if failed := d.applySettings(all.list); len(failed) > 0 {
		return failed[0]
	}
	if len(d.config.Servers) == 0 {
		return fmt.Errorf("%s: no server line in it; write one for each member", d.dynamicFile)
	}
	return nil
}

// setWeights makes observers of the servers without weight.
func (d *rawConfig) setWeights() error {
	for _, id := range d.withoutWeight {
		at := slices.IndexFunc(d.config.Servers, func(s serverlist.Server) bool { return s.ID == id })
		if at < 0 {
			return fmt.Errorf("%s: weight.%d=0, and there is no server.%[2]d; add it, or leave weight.%[2]d out", d.whereSet(fmt.Sprint("weight.", id)), id)
		}
		d.config.Servers[at].Observer = true
	}
	return nil
}

// setStandalone distinguishes a standalone server from a member of an ensemble, as ZooKeeper does.
func (d *rawConfig) setStandalone() error {
	voters := len(d.config.Servers.Voters())
	if err := d.checkObservers(voters); err != nil {
		return err
	}
	if voters == 0 && !d.standaloneEnabled {
		return fmt.Errorf("%s: standaloneEnabled=false needs a server line; write one, or leave standaloneEnabled out",
			d.whereSet("standaloneEnabled"))
	}
	d.config.Standalone = voters == 0 || voters == 1 && d.standaloneEnabled
	if d.config.Standalone {
		if voters == 1 {
			d.addWarning(d.sourceName, "one server line: this is a standalone server (standaloneEnabled=false makes an "+
				"ensemble of one)")
		}
		d.config.Settings = d.config.WithDefaults() // an ensemble must set initLimit and syncLimit
		return nil
	}
	switch {
	case voters == 2:
		d.addWarning(d.sourceName, "2 members with a vote: the ensemble stops when one of them does")
	case voters%2 == 0:
		d.addWarning(d.sourceName, "%d members with a vote tolerate no more failures than %d", voters, voters-1)
	}
	for _, limit := range []struct {
		key   string
		ticks int
	}{{"initLimit", d.config.InitLimit}, {"syncLimit", d.config.SyncLimit}} {
		if limit.ticks == 0 {
			return fmt.Errorf("%s: %s is not set: an ensemble needs it, 1 to %d ticks", d.whereSet(limit.key), limit.key,
				maxTicks)
		}
	}
	if err := serverlist.CheckAddresses(d.config.Servers); err != nil {
		return fmt.Errorf("%s: %w", d.sourceName, err)
	}
	return nil
}

// checkObservers checks that observers have an ensemble to observe. voters is the number of participants.
func (d *rawConfig) checkObservers(voters int) error {
	first := slices.IndexFunc(d.config.Servers, func(s serverlist.Server) bool { return s.Observer })
	if first < 0 {
		return nil
	}
	id := d.config.Servers[first].ID
	where := d.whereSet(fmt.Sprintf("server.%d", id))
	switch {
	case voters == 0:
		return fmt.Errorf("%s: all servers are observers, so none votes; write :participant instead of :observer for one "+
			"or more", where)
	case voters == 1 && d.standaloneEnabled:
		return fmt.Errorf("%s: server.%d is an observer, and a standalone server has none; add standaloneEnabled=false "+
			"for an ensemble with one vote", where, id)
	}
	return nil
}

// checkPeerType compares peerType with this member's server line. If they differ the line counts, as in ZooKeeper.
func (d *rawConfig) checkPeerType() error {
	where := d.setIn["peerType"]
	if where == "" {
		return nil
	}
	self, ok := d.config.Servers.Find(d.config.MyID)
	switch {
	case !d.own.isObserver && !self.Observer:
	case !ok || d.config.Standalone:
		d.addWarning(where, "peerType=observer has no effect on a standalone server")
	case d.own.isObserver && !self.Observer:
		d.addWarning(where, "peerType=observer, but %v: the server line counts, and this member votes; write :observer there",
			self)
	case !d.own.isObserver:
		d.addWarning(where, "peerType=participant, but %v: the server line counts, and this member does not vote", self)
	}
	return nil
}

// checkMemberStore returns an error if a store with members' certificates is needed but not set. It warns if the key
// store is set but not needed, by members or by HTTPS for operators. It also checks the keys of members that come by themselves.
func (d *rawConfig) checkMemberStore() error {
	if key, err := d.config.Trust.CheckStoreLocations(); err != nil {
		return fmt.Errorf("%s: %w", d.whereSet(key), err)
	}
	if d.quorumClientsUnproved && d.config.Trust.UsesCertificates() {
		return fmt.Errorf("%s: ssl.quorum.clientAuth=none: refused: with sslQuorum or portUnification, members always prove themselves to "+
			"each other; leave it out", d.whereSet("ssl.quorum.clientAuth"))
	}
	if err := d.config.checkSelfJoin(); err != nil {
		return fmt.Errorf("%s: %w", d.whereSet("members.join"), err)
	}
	for _, key := range []string{"members.voters", "members.join.hosts"} {
		if where := d.setIn[key]; where != "" && !d.config.SelfJoin.Auto {
			d.addWarning(where, "%s has no effect without members.join=auto", key)
		}
	}
	if where := d.setIn["members.line"]; where != "" && !d.config.SelfJoin.Auto {
		d.addWarning(where, "members.line has no effect without members.join=auto")
	}
	const key = "ssl.quorum.keyStore.location"
	ofMembers := d.config.Trust.ShowCertificates || d.config.Trust.AcceptPlain
	ofHTTPS := d.config.HTTP.ForceHTTPS || d.config.HTTP.UnifyPorts
	if where := d.setIn[key]; where != "" && !ofMembers && !ofHTTPS {
		d.addWarning(where, key+" has no effect without sslQuorum, portUnification, admin.forceHttps or admin.portUnification")
	}
	return nil
}

// setReadLease makes sure that a member grants leases for reads only if its own reads need them.
func (d *rawConfig) setReadLease() error {
	const key = "readLease"
	if d.config.LinearizableReads {
		return nil
	}
	d.config.Rules.ReadLeaseMs = 0
	if where := d.setIn[key]; where != "" {
		d.addWarning(where, key+" has no effect without readConsistency=linearizable")
	}
	return nil
}

// setHandshakeTimeout takes ZooKeeper's key if Rollcall's own is not set.
func (d *rawConfig) setHandshakeTimeout() error {
	if d.sessionlessTimeout != 0 && d.setIn["handshakeTimeout"] == "" {
		d.config.Limits.Handshake = d.sessionlessTimeout
	}
	return nil
}

func (d *rawConfig) setClientAddress() error {
	if d.clientListener.port < 0 && d.setIn["clientPortAddress"] != "" {
		return fmt.Errorf("%s: clientPortAddress without clientPort; set clientPort, too", d.whereSet("clientPortAddress"))
	}
	if d.clientListener.port >= 0 {
		d.config.ClientAddr = joinHostPort(d.clientListener.host, d.clientListener.port)
	}
	self, _ := d.config.Servers.Find(d.config.MyID)
	if line := self.ClientAddr(); line != "" {
		same := d.clientListener.port == self.ClientPort &&
			(d.clientListener.host == serverlist.AllHosts || strings.EqualFold(d.clientListener.host, self.ClientHost))
		if d.clientListener.port >= 0 && !same && d.flags.clientAddr == "" {
			return fmt.Errorf("%s: clients at %s, but server.%d says %s; make the two agree, or leave clientPort and "+
				"clientPortAddress out", d.whereSet("clientPort"), d.config.ClientAddr, self.ID, line)
		}
		d.config.ClientAddr = line
	}
	if d.flags.clientAddr != "" {
		h, port, err := net.SplitHostPort(d.flags.clientAddr)
		if err != nil {
			return fmt.Errorf("--client %s: must be host:port", ShortText(d.flags.clientAddr))
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return fmt.Errorf("--client %s: port: must be 0 to %d", ShortText(d.flags.clientAddr), maxPort)
		}
		if h, err = serverlist.ParseHost(cmp.Or(h, serverlist.AllHosts)); err != nil {
			return fmt.Errorf("--client: %w", err)
		}
		d.config.ClientAddr = joinHostPort(h, int(n))
	}
	if d.config.ClientAddr == "" && d.secureListener.port < 0 {
		d.addWarning(d.sourceName, "no clientPort: no client can connect here")
	}
	return nil
}

const loopbackTrustKey = "admin.loopbackTrust"

// warnLoopbackTrust warns if HTTP is meant for other machines and no key decides about loopback addresses.
func (d *rawConfig) warnLoopbackTrust() {
	if !d.adminListener.enabled || d.setIn[loopbackTrustKey] != "" || isLoopback(d.adminListener.host) && !d.config.HTTP.ForceHTTPS {
		return
	}
	d.addWarning(d.sourceName, "HTTP for operators is meant for other machines, and every request over a loopback address counts as "+
		"one from this machine; if a proxy on it passes requests on, set %s=false, and otherwise %[1]s=true", loopbackTrustKey)
}

// setOperatorAddresses sets the addresses where operators and collectors are served over HTTP.
func (d *rawConfig) setOperatorAddresses() error {
	if d.adminListener.enabled {
		d.config.HTTP.Addr = joinHostPort(d.adminListener.host, d.adminListener.port)
	}
	if d.metricsListener.enabled {
		d.config.HTTP.MetricsAddr = joinHostPort(d.metricsListener.host, d.metricsListener.port)
	}
	d.warnLoopbackTrust()
	asks := "admin.forceHttps"
	if !d.config.HTTP.ForceHTTPS {
		asks = "admin.portUnification"
	}
	switch c := d.config.Trust.Certificates; {
	case !d.config.HTTP.ForceHTTPS && !d.config.HTTP.UnifyPorts:
		if d.config.HTTP.NeedClientAuth {
			d.addWarning(d.whereSet("admin.needClientAuth"),
				"admin.needClientAuth has no effect without admin.forceHttps=true or admin.portUnification=true")
		}
	case c.KeyStore.Location == "":
		return fmt.Errorf("%s: %s=true needs a private key with its certificate; set ssl.quorum.keyStore.location",
			d.whereSet(asks), asks)
	case d.config.HTTP.NeedClientAuth && c.AskResponders:
		return fmt.Errorf("%s: responders are asked about members' certificates, not operators', so ssl.quorum.ocsp=true does not go with "+
			"admin.needClientAuth=true; set ssl.quorum.crl in its place", d.whereSet("ssl.quorum.ocsp"))
	case d.config.HTTP.NeedClientAuth && c.TrustStore.Location == "":
		return fmt.Errorf("%s: admin.needClientAuth=true needs authorities that are believed; set "+
			"ssl.quorum.trustStore.location", d.whereSet("admin.needClientAuth"))
	}
	return nil
}

// setAuditFile checks that the audit log is enabled if it is required, and sets its file.
func (d *rawConfig) setAuditFile() error {
	if d.config.Audit.Required && !d.config.Audit.Enable {
		return fmt.Errorf("%s: audit.required=true needs audit.enable=true; set it, or leave audit.required out",
			d.whereSet("audit.required"))
	}
	switch {
	case !d.config.Audit.Enable:
	case d.config.Audit.File == auditStdout:
		d.config.Audit.File = ""
	case d.config.Audit.File == "":
		d.config.Audit.File, d.config.Audit.OwnDirectory = filepath.Join(d.config.Dir, "audit", "audit.log"), true
	}
	return nil
}

func joinHostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
