package member

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/config"
	"rollcall/leader"
	"rollcall/operator/admin"
	"rollcall/proto"
	"rollcall/quorum/trust"
	"rollcall/quorum/wire"
	"rollcall/server"
	"rollcall/server/tenant"
	"rollcall/zk/sasl"
	"rollcall/znode"
)

// reaches says in which field of the packages' configurations each field of Config ends up. ""
// means that Member uses it itself, and that another test checks it.
var reaches = map[string]string{
	"ID":                    "audit.Member conf.electionPort conf.quorumPort conf.serverId follower.Self http.HostNames leader.Self otlp.Member quorum.MemberID start.Leader state.Self",
	"Servers":               "quorum.Peers",
	"Dir":                   "conf.dataDir quorum.DataDir",
	"LogDir":                "conf.dataLogDir quorum.LogDir",
	"Tick":                  "conf.tickTime follower.Tick leader.PartingTime leader.Tick server.Tick",
	"HeartbeatTimeout":      "quorum.HeartbeatTimeout",
	"InitLimit":             "conf.initLimit",
	"SyncLimit":             "conf.syncLimit follower.SyncLimit leader.SyncLimit",
	"MinTimeout":            "conf.minSessionTimeout server.MinTimeout",
	"MaxTimeout":            "conf.maxSessionTimeout server.MaxTimeout",
	"Limits.MaxBuffer":      "server.Limits.MaxBuffer",
	"Limits.MaxClientConns": "conf.maxClientCnxns server.Limits.MaxClientConns",
	"Limits.MaxConns":       "server.Limits.MaxConns",
	"Limits.MaxInFlight":    "server.Limits.MaxInFlight",
	"Limits.MaxUnread":      "server.Limits.MaxUnread",
	"Limits.MaxPath":        "server.Limits.MaxPath",
	"Limits.MaxACL":         "server.Limits.MaxACL",
	"Limits.MaxIdentities":  "server.Limits.MaxIdentities",
	"Limits.Budget":         "server.Limits.Budget",
	"Limits.Handshake":      "server.Limits.Handshake",
	"MaxInFlight":           "follower.MaxInFlight",
	"DrainTime":             "", // TestLeave
	"SuperDigest":           "http.SuperDigest server.SuperDigest",
	"Digest":                "http.DigestAlg server.Digest",
	"NoDigest":              "server.NoDigest",
	"Login.Users":           "", // server.TestSASLLogin; a pointer is no plain value
	"Login.EnsembleNames":   "server.Login.EnsembleNames",
	"Login.SuperUsers":      "server.Login.SuperUsers",
	"Login.Schemes":         "server.Login.Schemes",
	"Login.KeepFailed":      "server.Login.KeepFailed",
	"HTTP.Addr":             "http.HTTPSettings.Addr",
	"HTTP.CommandURL":       "http.HTTPSettings.CommandURL",
	"HTTP.IdleTimeout":      "http.HTTPSettings.IdleTimeout",
	"HTTP.MetricsAddr":      "http.HTTPSettings.MetricsAddr",
	"HTTP.BareMetrics":      "http.HTTPSettings.BareMetrics",
	"HTTP.TokenFile":        "http.HTTPSettings.TokenFile",
	"HTTP.ForceHTTPS":       "http.HTTPSettings.ForceHTTPS",
	"HTTP.DistrustLoopback": "http.HTTPSettings.DistrustLoopback",
	"HTTP.UnifyPorts":       "http.HTTPSettings.UnifyPorts",
	"HTTP.NeedClientAuth":   "http.HTTPSettings.NeedClientAuth",
	"HTTP.ReadTokenFile":    "http.HTTPSettings.ReadTokenFile",
	"HTTP.MetricsTokenFile": "http.HTTPSettings.MetricsTokenFile",
	"HTTP.LocalReads":       "http.AnonymousAccess.Reads http.HTTPSettings.LocalReads words.AnonymousAccess.Reads",
	"HTTP.Hosts":            "http.HTTPSettings.Hosts",
	"HTTP.NoSnapshots":      "http.HTTPSettings.NoSnapshots",
	"HTTP.NoRestores":       "http.HTTPSettings.NoRestores",
	"HTTP.SnapshotInterval": "http.HTTPSettings.SnapshotInterval",
	"LinearizableReads":     "follower.ReadsByLease server.LinearizableReads",
	"ReadOnlyMode":          "words.Whitelist",
	"Rules.SkipACL":         "start.SkipAcl",
	"Rules.TTLNodes":        "start.TtlNodes",
	"Rules.EnforceQuota":    "start.EnforceQuota",
	"Rules.X509":            "start.X509",
	"Rules.SASL":            "start.Sasl",
	"Rules.DataQuota":       "start.DataQuota",
	"Rules.Reconfig":        "start.Reconfig",
	"Rules.LongNames":       "start.LongNames",
	"Rules.AnySASLUser":     "start.AnySaslUser",
	"Rules.ReadLeaseMs":     "start.ReadLeaseMs",
	"CommandWhitelist":      "words.Whitelist",
	"SnapCount":             "quorum.SnapshotEvery",
	"History.Bytes":         "quorum.History.Bytes",
	"History.Age":           "quorum.History.Age",
	"Slow.Request":          "", // TestSlowStages, with a tick whose tenth is longer
	"Slow.Read":             "", // TestSlowThresholds, as for the next two
	"Slow.Write":            "",
	"Slow.Session":          "",
	"Slow.Sync":             "quorum.SlowSync",
	"StoreStallLimit":       "quorum.StallLimit",
	"Reaping.Interval":      "leader.Reaping.Interval",
	"Reaping.PerMinute":     "leader.Reaping.PerMinute",
	"Reaping.NeverUsed":     "leader.Reaping.NeverUsed",
	"EnsembleText":          "conf.membership state.EnsembleText",
	"WatchHistory":          "state.ChangeHistory",
	"Version":               "otlp.Version words.Version",
	"BuildTime":             "words.BuildDate",
	"Trust.SecretFile":      "", // integration.TestSecret

	"Trust.Kerberos.Dialed.Keytab":           "", // quorum/trust.TestKerberos
	"Trust.Kerberos.Dialed.Principal.Name":   "", // quorum/trust.TestKerberos
	"Trust.Kerberos.Dialed.Principal.Realm":  "", // quorum/trust.TestKerberos
	"Trust.Kerberos.Dialing.Keytab":          "", // quorum/trust.TestKerberos
	"Trust.Kerberos.Dialing.Principal.Name":  "", // quorum/trust.TestKerberos
	"Trust.Kerberos.Dialing.Principal.Realm": "", // quorum/trust.TestKerberos
	"Trust.Kerberos.DialedName":              "", // quorum/trust.TestDialedPrincipal
	"Trust.Kerberos.Krb5Conf":                "", // quorum/trust.TestKerberos
	"Trust.Kerberos.ClockSkew":               "", // quorum/trust.TestKerberosSkew

	"Trust.MemberLogin.File":           "", // integration.TestSecret
	"Trust.MemberLogin.ServerSection":  "", // integration.TestSecret
	"Trust.MemberLogin.LearnerSection": "", // integration.TestSecret
	"Trust.MemberLogin.Given":          "", // quorum/trust.TestMembersLogInByVariables
	"Trust.AcceptPlain":                "", // integration.TestSecret
	"NewEnsemble":                      "quorum.FoundByMajority",
	"ConfigKeys":                       "http.ConfigKeys",
	"Audit.Enable":                     "audit.Settings.Enable",
	"Audit.Required":                   "audit.Settings.Required",
	"Audit.ZooKeeperFormat":            "audit.Settings.ZooKeeperFormat",
	"Audit.File":                       "audit.Settings.File",
	"Audit.OwnDirectory":               "audit.Settings.OwnDirectory",
	"Audit.MaxFileSize":                "audit.Settings.MaxFileSize",
	"Audit.KeptFiles":                  "audit.Settings.KeptFiles",
	"Archive.To":                       "", // TestArchive
	"Archive.Endpoint":                 "", // operator/archive/location.TestBucket
	"Archive.Region":                   "", // operator/archive/location.TestBucket
	"Archive.CredentialsFile":          "", // operator/archive/location.TestBucket
	"Archive.Interval":                 "", // TestArchive
	"Backup.Dir":                       "", // TestOwnBackups
	"Backup.Interval":                  "", // TestOwnBackups
	"Backup.KeptFiles":                 "", // TestOwnBackups
	"OTLP.Endpoint":                    "otlp.Settings.Endpoint",
	"OTLP.HeadersFile":                 "otlp.Settings.HeadersFile",
	"OTLP.TrustFile":                   "otlp.Settings.TrustFile",
	"OTLP.KeyFile":                     "otlp.Settings.KeyFile",
	"OTLP.NoTraces":                    "otlp.Settings.NoTraces",
	"OTLP.NoMetrics":                   "otlp.Settings.NoMetrics",
	"OTLP.MetricsInterval":             "otlp.Settings.MetricsInterval",
	"AutoRebalance":                    "", // TestAutoRebalance
	"SelfJoin.Auto":                    "quorum.SelfJoin",
	"SelfJoin.Voters":                  "", // TestMembersComeByThemselves
	"SelfJoin.Hosts":                   "", // TestMembersThatMayNotCome
	"SuperSubject":                     "http.SuperSubject server.SuperSubject",

	"ClientTLS.Key.Location":   "keys.Key.Location",
	"ClientTLS.Key.Password":   "keys.Key.Password",
	"ClientTLS.Key.Type":       "keys.Key.Type",
	"ClientTLS.Trust.Location": "keys.Trust.Location",
	"ClientTLS.Trust.Password": "keys.Trust.Password",
	"ClientTLS.Trust.Type":     "keys.Trust.Type",
	"ClientTLS.CRL":            "keys.CheckCRLs",
	"ClientTLS.CRLs":           "keys.CRLFile",
	"ClientTLS.OCSP":           "keys.CheckOCSP",
	"ClientTLS.VerifyHost":     "server.TLS.Checks.Host",
	"ClientTLS.ReverseDNS":     "server.TLS.Checks.ReverseDNS",
	"ClientTLS.Terms.Auth":     "terms.Auth",
	"ClientTLS.Terms.Min":      "terms.Min",
	"ClientTLS.Terms.Max":      "terms.Max",
	"ClientTLS.Terms.Ciphers":  "terms.Ciphers",
	"ClientTLS.UnifiedPort":    "server.TLS.Unified",
	"ClientTLS.DetectTimeout":  "server.TLS.Detection",
	"ClientTLS.MaxHandshakes":  "server.TLS.Handshakes",
	"ClientTLS.CertReload":     "keys.ReloadOnDemandOnly",

	"Limits.Throttle.Tokens":       "server.Limits.Throttle.Tokens",
	"Limits.Throttle.FillTime":     "server.Limits.Throttle.FillTime",
	"Limits.Throttle.FillCount":    "server.Limits.Throttle.FillCount",
	"Limits.Throttle.Freeze":       "server.Limits.Throttle.Freeze",
	"Limits.Throttle.Increase":     "server.Limits.Throttle.Increase",
	"Limits.Throttle.Decrease":     "server.Limits.Throttle.Decrease",
	"Limits.Throttle.Ratio":        "server.Limits.Throttle.Ratio",
	"Limits.Throttle.Weighted":     "server.Limits.Throttle.Weighted",
	"Limits.Throttle.GlobalWeight": "server.Limits.Throttle.GlobalWeight",
	"Limits.Throttle.RenewWeight":  "server.Limits.Throttle.RenewWeight",

	"Limits.RequestThrottle.MaxRequests":       "server.Limits.RequestThrottle.MaxRequests",
	"Limits.RequestThrottle.StallTime":         "server.Limits.RequestThrottle.StallTime",
	"Limits.RequestThrottle.KeepStale":         "server.Limits.RequestThrottle.KeepStale",
	"Limits.RequestThrottle.LatencyCheck":      "server.Limits.RequestThrottle.LatencyCheck",
	"Limits.RequestThrottle.NoConnectionCheck": "server.Limits.RequestThrottle.NoConnectionCheck",
	"Limits.RequestThrottle.OpWait":            "server.Limits.RequestThrottle.OpWait",
	"Limits.Tenants":                           "", // TestEveryOwnMetricLeavesZero; a pointer is no plain value

	// integration/kills.TestProtect
	"Trust.ShowCertificates":                 "",
	"Trust.Certificates.KeyStore.Location":   "",
	"Trust.Certificates.KeyStore.Password":   "",
	"Trust.Certificates.KeyStore.Type":       "",
	"Trust.Certificates.TrustStore.Location": "",
	"Trust.Certificates.TrustStore.Password": "",
	"Trust.Certificates.TrustStore.Type":     "",
	"Trust.Certificates.CheckRevocation":     "",
	"Trust.Certificates.RevocationFile":      "",
	"Trust.Certificates.AskResponders":       "",
	"Trust.Certificates.AnyHost":             "",
}

// judges are the fields that no configuration file can set: they are for tests, or New makes them
// from others. Login.Kerberos goes where Login goes, and a server reads its files (server.TestKerberosLogin).
var judges = []string{"Login.Kerberos", "ClientListener", "SecureListener", "OperatorListener", "MetricsListener", "Network", "Memory", "BindAddress", "Stores", "Now", "Monotonic", "OnEvent", "AuditOutput", "Log", "Logger", "Hooks", "WrapMember", "WrapLog"}

// defaults are the fields of rooms that no setting changes, and keys.ReloadOnDemandOnly, which a setting switches off. Those of Kerberos are judges.
var defaults = strings.Fields("conf.peerType follower.MaxInFlightBytes follower.MaxQueued follower.MaxQueuedBytes quorum.SegmentBytes quorum.SnapshotBytes quorum.TrailingBytes keys.ReloadOnDemandOnly " +
	"server.Login.Kerberos.KeytabFile server.Login.Kerberos.Principal server.Login.Kerberos.Rules server.Login.Kerberos.DefaultRealm " +
	"server.Login.Kerberos.RemoveHost server.Login.Kerberos.RemoveRealm server.Login.Kerberos.ClockSkew")

// Every setting reaches the packages that need it, and no other field of theirs. Each is changed
// alone.
func TestSettingsReachTheRooms(t *testing.T) {
	var base Config
	for i, f := range leaves(t, reflect.ValueOf(&base).Elem(), "") {
		f.set(i)
	}
	before := rooms(t, base)
	for name, value := range before {
		unset := value == "0" || value == "" || value == "false" || value == "[]" || value == "0s"
		if fixed := slices.Contains(defaults, name); unset != fixed {
			t.Errorf("%s is %q while every setting is set; that it keeps its default: %t", name, value, fixed)
		}
	}
	if before["conf.quorumPort"] != "1" || before["conf.electionPort"] != "2" {
		t.Errorf("conf says quorumPort %s and electionPort %s, want 1 and 2", before["conf.quorumPort"], before["conf.electionPort"])
	}
	fields := leaves(t, reflect.ValueOf(&base).Elem(), "")
	for _, f := range fields {
		want, known := reaches[f.name]
		if !known {
			t.Errorf("Config.%s is new: say in reaches where it goes", f.name)
			continue
		}
		undo := f.change()
		after := rooms(t, base)
		undo()
		var changed []string
		for name := range after {
			if after[name] != before[name] {
				changed = append(changed, name)
			}
		}
		slices.Sort(changed)
		if got := strings.Join(changed, " "); got != want {
			t.Errorf("Config.%s changes %q, want %q", f.name, got, want)
		}
	}
	for name := range reaches {
		if !slices.ContainsFunc(fields, func(f leaf) bool { return f.name == name }) {
			t.Errorf("reaches has %s, and Config has not", name)
		}
	}
}

// leaf is one value in a struct of settings.
type leaf struct {
	name  string
	value reflect.Value
}

// leaves returns the fields of a struct except judges, and those of the structs in it.
func leaves(t *testing.T, v reflect.Value, prefix string) (all []leaf) {
	t.Helper()
	for i := range v.NumField() {
		name, f := prefix+v.Type().Field(i).Name, v.Field(i)
		switch {
		case slices.Contains(judges, name):
		case v.Type().Field(i).Anonymous:
			all = append(all, leaves(t, f, prefix)...)
		case f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[time.Time]():
			all = append(all, leaves(t, f, name+".")...)
		default:
			all = append(all, leaf{name, f})
		}
	}
	return all
}

// set gives the field the n-th value of its type. None of these is the zero value, and numbers
// differ.
func (f leaf) set(n int) {
	switch v := f.value.Addr().Interface().(type) {
	case *[]Server:
		*v = []Server{{ID: 1, GrpcAddr: "a:1", RaftAddr: "a:2"}, {ID: 2, GrpcAddr: "b:3", RaftAddr: "b:4"}}
	case *[]string:
		*v = []string{fmt.Sprint("word", n)}
	case *[]config.Key:
		*v = []config.Key{{Name: fmt.Sprint("key", n)}}
	case *[]uint16:
		*v = []uint16{uint16(n)}
	case *[]byte:
		*v = fmt.Append(nil, "text", n)
	case **sasl.Users:
		*v = sasl.NewUsers(map[string]string{"bob": fmt.Sprint(n)})
	case **trust.MemberUsers:
		*v = &trust.MemberUsers{Name: fmt.Sprint("user", n)}
	case **tenant.Limiter:
		*v = new(tenant.Limiter)
	case *time.Time:
		*v = time.Unix(int64(n+1), 0)
	case *time.Duration:
		*v = time.Duration(n+1) * time.Second
	default:
		switch {
		case f.name == "ID":
			f.value.SetUint(1)
		case f.value.Kind() == reflect.Bool:
			f.value.SetBool(true)
		case f.value.Kind() == reflect.String:
			f.value.SetString(fmt.Sprint("text", n))
		case f.value.CanUint():
			f.value.SetUint(uint64(n + 1))
		case f.value.CanFloat():
			f.value.SetFloat(1 / float64(n+2))
		default:
			f.value.SetInt(int64(n + 2000))
		}
	}
}

// change gives the field another value, and returns a function that restores the old one.
func (f leaf) change() (undo func()) {
	old := reflect.New(f.value.Type()).Elem()
	old.Set(f.value)
	switch v := f.value.Addr().Interface().(type) {
	case *[]Server:
		*v = append(slices.Clone(*v), Server{ID: 3, GrpcAddr: "c:5", RaftAddr: "c:6"})
	case *[]string:
		*v = append(slices.Clone(*v), "more")
	case *[]config.Key:
		*v = append(slices.Clone(*v), config.Key{Name: "more"})
	case *[]uint16:
		*v = append(slices.Clone(*v), 1)
	case *[]byte:
		*v = append(slices.Clone(*v), " and more"...)
	case **sasl.Users:
		*v = sasl.NewUsers(nil)
	case **trust.MemberUsers:
		*v = &trust.MemberUsers{Name: "more"}
	case **tenant.Limiter:
		*v = new(tenant.Limiter)
	case *time.Time:
		*v = v.Add(time.Hour)
	case *time.Duration:
		*v += time.Second / 2
	default:
		switch f.value.Kind() {
		case reflect.Bool:
			f.value.SetBool(false)
		case reflect.String:
			f.value.SetString(f.value.String() + "more")
		case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			f.value.SetUint(f.value.Uint() + 1)
		case reflect.Float64:
			f.value.SetFloat(f.value.Float() / 2)
		default:
			f.value.SetInt(f.value.Int() + 1)
		}
	}
	return func() { f.value.Set(old) }
}

// rooms returns the configurations of all packages of a member with cfg, field by field.
func rooms(t *testing.T, cfg Config) map[string]string {
	t.Helper()
	var err error
	if cfg.ClientListener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cfg.ClientListener.Close() }()
	if err := cfg.checkAndComplete(); err != nil {
		t.Fatal(err)
	}
	m := &Member{cfg: cfg, log: cfg.Logger, wallClock: leader.NewClock(cfg.Now)}
	m.viewer = newViewer(m)
	m.ports.loopback = newLoopback(cfg.ID)
	defer func() { _ = m.ports.loopback.Close() }()
	m.terms, m.peerConns = newTerms(m), newPeerConns(cfg.Tick, m.dialMember)
	m.serverLists = newServerLists(&m.cfg, wire.NewAddressBook(cfg.ID, raftPeers(cfg.Servers)), m.peerConns.discardConns, m.log)
	m.ports.addressBook = m.serverLists.addressBook
	defer m.peerConns.closeAll()
	m.state = znode.New(stateConfig(&m.cfg, nil))
	if m.server, err = server.New(m.serverConfig(nil)); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	flatten(all, "state", reflect.ValueOf(stateConfig(&m.cfg, nil)))
	flatten(all, "follower", reflect.ValueOf(m.followerConfig()))
	flatten(all, "server", reflect.ValueOf(m.serverConfig(nil)))
	flatten(all, "keys", reflect.ValueOf(clientKeyOptions(cfg.ClientTLS)))
	flatten(all, "terms", reflect.ValueOf(cfg.ClientTLS.Terms))
	flatten(all, "quorum", reflect.ValueOf(m.quorumConfig()))
	flatten(all, "words", reflect.ValueOf(m.commandsConfig()))
	flatten(all, "http", reflect.ValueOf(m.httpConfig(nil)))
	flatten(all, "audit", reflect.ValueOf(m.auditConfig()))
	m.adminHTTP = &admin.HTTP{}
	flatten(all, "otlp", reflect.ValueOf(exporterConfig(m)))
	lines, members := source{m}.Settings(1, 1)
	for _, line := range lines {
		all["conf."+line.Name] = line.Value
	}
	all["conf.membership"] = members
	term := m.terms.leaderConfig(appliedStart{})
	flatten(all, "leader", reflect.ValueOf(term))
	var entry proto.Entry
	var start proto.TermStart
	text, err := m.terms.termStartEntry(m.terms.entryFormat(), 1, nil, nil)
	if err == nil {
		err = protobuf.Unmarshal(text, &entry)
	}
	if err == nil {
		err = protobuf.Unmarshal(entry.GetTxns()[0].GetBody(), &start)
	}
	if err != nil {
		t.Fatal(err)
	}
	flatten(all, "start", reflect.ValueOf(&start).Elem())
	for _, chance := range []string{"otlp.StartTime", "follower.Boot", "server.ConnBase", "conf.clientPort", "leader.Term", "leader.Nonce"} {
		delete(all, chance)
	}
	return all
}

// flatten adds the plain values in a struct to all; functions, interfaces and pointers are not
// settings.
func flatten(all map[string]string, prefix string, v reflect.Value) {
	for i := range v.NumField() {
		name, f := prefix+"."+v.Type().Field(i).Name, v.Field(i)
		if !v.Type().Field(i).IsExported() {
			continue
		}
		switch f.Kind() {
		case reflect.Func, reflect.Interface, reflect.Pointer, reflect.Chan, reflect.Map:
		case reflect.Struct:
			if at, ok := f.Interface().(time.Time); ok {
				all[name] = at.String()
			} else {
				flatten(all, name, f)
			}
		default:
			all[name] = fmt.Sprint(f.Interface())
		}
	}
}
