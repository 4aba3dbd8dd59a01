package config

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/leader"
	"rollcall/znode"
)

// inDir writes files into the new directory dir, and replaces DIR in their texts by its path. at does
// the same with another text.
func inDir(t *testing.T, files map[string]string) (dir string, at func(string) string) {
	t.Helper()
	dir = t.TempDir()
	at = func(text string) string { return strings.ReplaceAll(text, "DIR", dir) }
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(at(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, at
}

// parseFlags parses args as a command does.
func parseFlags(t *testing.T, args ...string) Flags {
	t.Helper()
	var flags Flags
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	flags.Register(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}

func texts(warnings []Warning) string {
	var all []string
	for _, w := range warnings {
		all = append(all, w.String())
	}
	return strings.Join(all, "\n")
}

const three = "initLimit=5\nsyncLimit=2\nserver.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181\nserver.3=c:2888:3888;2181\n"

// The numbers are those of the conformance cases for configuration. Where a case speaks of a start,
// Load decides it, before anything is started.
func TestLoadCases(t *testing.T) {
	tests := []struct {
		name    string // the number of the case, and what it is about
		cfg     string // the lines after dataDir=DIR, which noData leaves out
		myid    string
		dynamic string
		noData  bool
		err     string // "" if it must load; DIR for the directory
		warning string // part of the warnings; "" for none at all
		check   func(c Config) bool
	}{
		{name: "case 365 dataDir and clientPort only", cfg: "clientPort=2181", check: func(c Config) bool {
			return c.Standalone && c.Tick == 3*time.Second && c.MinTimeout == 6*time.Second &&
				c.MaxTimeout == time.Minute && c.ClientAddr == "0.0.0.0:2181" && c.MyID == 1
		}},
		{name: "case 366 tickTime 0", cfg: "tickTime=0", err: "DIR/zoo.cfg:2: tickTime=0: must be 1 to 3600000 (ms)"},
		{name: "case 367 no dataDir", noData: true, cfg: "clientPort=2181", err: "DIR/zoo.cfg: dataDir is not set; set dataDir=PATH, or give --data PATH"},
		{name: "case 367 empty dataDir", noData: true, cfg: "dataDir=", err: "DIR/zoo.cfg:1: dataDir=: must be a path"},
		{name: "case 368 clientPortAddress alone", cfg: "clientPortAddress=::1", err: "DIR/zoo.cfg:2: clientPortAddress without clientPort; set clientPort, too"},
		{name: "case 369 no initLimit", cfg: strings.Replace(three, "initLimit=5", "", 1), myid: "1", err: "DIR/zoo.cfg: initLimit is not set: an ensemble needs it, 1 to 100000 ticks"},
		{name: "case 369 no syncLimit", cfg: strings.Replace(three, "syncLimit=2", "syncLimit=0", 1), myid: "1", err: "DIR/zoo.cfg:3: syncLimit is not set: an ensemble needs it, 1 to 100000 ticks"},
		{name: "case 370 no myid", cfg: three, err: "DIR/myid is missing: it must hold the number of this member, 1 to 255"},
		{name: "case 370 myid not a number", cfg: three, myid: "one\n", err: `DIR/myid: "one": must be a number from 1 to 255`},
		{name: "case 370 myid empty", cfg: three, myid: "\n1\n", err: `DIR/myid: "": must be a number from 1 to 255`},
		{name: "myid 0", cfg: three, myid: "0\n", err: `DIR/myid: "0": must be a number from 1 to 255; in place of ZooKeeper's 0, it is the number of this member's server line`},
		{name: "case 370 myid 256", cfg: three, myid: "256", err: `DIR/myid: "256": must be a number from 1 to 255`},
		{name: "case 370 myid of nobody", cfg: three, myid: "4", err: "DIR/zoo.cfg: this is member 4 (DIR/myid), and there is no server.4: correct one of the two"},
		{name: "case 371 one server line", cfg: "server.7=h:2888:3888;2181", warning: "one server line", check: func(c Config) bool {
			return c.Standalone && c.MyID == 7 && c.ClientAddr == "0.0.0.0:2181"
		}},
		{name: "case 371 one server line, myid of another", cfg: "server.7=h:2888:3888;2181", myid: "2", warning: "member 2, and the only server line is server.7", check: func(c Config) bool {
			return c.Standalone && c.MyID == 7
		}},
		{name: "case 371 one server line, standaloneEnabled=false", cfg: "standaloneEnabled=False\ninitLimit=1\nsyncLimit=1\nserver.1=h:2888:3888;2181", myid: " 1 \nrest\n", check: func(c Config) bool {
			return !c.Standalone && len(c.Servers) == 1 && c.InitLimit == 1 && c.SyncLimit == 1
		}},
		{name: "case 371 no server line, standaloneEnabled=false", cfg: "standaloneEnabled=false", err: "DIR/zoo.cfg:2: standaloneEnabled=false needs a server line; write one, or leave standaloneEnabled out"},
		{name: "case 372 two server lines", cfg: "initLimit=5\nsyncLimit=2\nserver.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181", myid: "2", warning: "2 members with a vote", check: func(c Config) bool {
			return !c.Standalone && len(c.Servers) == 2 && c.MyID == 2
		}},
		{name: "case 373 only observers", cfg: "server.1=a:2888:3888:observer", err: "DIR/zoo.cfg:2: all servers are observers, so none votes; write :participant instead of :observer for one or more"},
		{name: "case 373 one participant with an observer", cfg: "server.1=a:2888:3888\nserver.2=b:2888:3888:observer", err: "DIR/zoo.cfg:3: server.2 is an observer, and a standalone server has none; add standaloneEnabled=false for an ensemble with one vote"},
		{name: "case 375 an observer", cfg: three + "server.4=d:2888:3888:OBSERVER;127.0.0.1:2181", myid: "4", check: func(c Config) bool {
			return c.Servers[3].Observer && c.ClientAddr == "127.0.0.1:2181"
		}},
		{name: "case 375 an observer that peerType calls a participant", cfg: three + "server.4=d:2888:3888:observer;2181\npeerType=participant", myid: "4", warning: "DIR/zoo.cfg:8: peerType=participant, but server.4=d:2888:3888:observer;0.0.0.0:2181: the server line counts, and this member does not vote", check: func(c Config) bool {
			return c.Servers[3].Observer
		}},
		{name: "case 375 one participant and an observer", cfg: "standaloneEnabled=false\ninitLimit=5\nsyncLimit=2\npeerType=observer\nserver.1=a:2888:3888;2181\nserver.2=b:2888:3888:observer;2181", myid: "2", check: func(c Config) bool {
			return !c.Standalone && c.Servers[1].Observer
		}},
		{name: "an observer by peerType alone", cfg: three + "peerType=Observer", myid: "2", warning: "DIR/zoo.cfg:7: peerType=observer, but server.2=b:2888:3888:participant;0.0.0.0:2181: the server line counts, and this member votes; write :observer there", check: func(c Config) bool {
			return !c.Servers[1].Observer
		}},
		{name: "case 376 a wrong server line", cfg: "server.1=h:2888", err: "DIR/zoo.cfg:2: server.1=h:2888: must be host:quorumPort:electionPort[:participant|:observer][;[clientHost:]clientPort]"},
		{name: "case 378 two addresses", cfg: "server.1=h:2888:3888|i:2888:3888", err: "DIR/zoo.cfg:2: server.1=h:2888:3888|i:2888:3888: a server has one address, by which the others know it; write a name that moves with the network in place of several addresses"},
		{name: "case 379 standaloneEnabled=yes", cfg: "standaloneEnabled=yes", err: "DIR/zoo.cfg:2: standaloneEnabled=yes: must be true or false"},
		{name: "case 379 of a key without effect", cfg: "syncEnabled=1", err: "DIR/zoo.cfg:2: syncEnabled=1: must be true or false"},
		{name: "case 380 unknown key", cfg: "clientPort=2181\nfoo.bar=1", warning: "DIR/zoo.cfg:3: unknown key foo.bar", check: func(c Config) bool { return c.Standalone }},
		{name: "case 381 dynamicConfigFile and server lines", cfg: "dynamicConfigFile=DIR/dynamic\n" + three, myid: "1", dynamic: "server.1=a:2888:3888", err: "DIR/zoo.cfg:2: with dynamicConfigFile, server lines stand there alone; move server.1 from DIR/zoo.cfg:5 into that file"},
		{name: "case 381 dynamicConfigFile alone", cfg: "initLimit=5\nsyncLimit=2\ndynamicConfigFile=DIR/dynamic", myid: "3", dynamic: "server.3=c:2888:3888;2183\nserver.1=a:2888:3888\nserver.2=b:2888:3888", check: func(c Config) bool {
			return !c.Standalone && len(c.Servers) == 3 && c.Servers[0].ID == 1 && c.ClientAddr == "0.0.0.0:2183"
		}},
		{name: "case 381 dynamicConfigFile missing", cfg: "dynamicConfigFile=DIR/nowhere", err: "DIR/zoo.cfg:2: dynamicConfigFile: open DIR/nowhere: no such file or directory; it must name a file that this user may read"},
		{name: "case 381 dynamicConfigFile empty", cfg: "dynamicConfigFile=DIR/dynamic", dynamic: "# nobody", err: "DIR/dynamic: no server line in it; write one for each member"},
		{name: "case 382 version in the dynamic file", cfg: "dynamicConfigFile=DIR/dynamic", dynamic: "server.1=a:2888:3888\nversion=100000000", err: "DIR/dynamic:2: version: must be a server line"},
		{name: "case 381 a wrong line in the dynamic file", cfg: "dynamicConfigFile=DIR/dynamic", dynamic: "# members\nserver.1=a:2888", err: "DIR/dynamic:2: server.1=a:2888: must be host:quorumPort:electionPort[:participant|:observer][;[clientHost:]clientPort]"},
		{name: "case 381 one server twice in the dynamic file", cfg: "dynamicConfigFile=DIR/dynamic", dynamic: "server.1=a:2888:3888\nserver.1=b:2888:3888", err: "DIR/dynamic:2: duplicate server.1, first in DIR/dynamic:1; remove one of the two"},
		{name: "case 382 other key in the dynamic file", cfg: "dynamicConfigFile=DIR/dynamic", dynamic: "clientPort=2181", err: "DIR/dynamic:1: clientPort: must be a server line"},
		{name: "case 383 another port than the own line", cfg: three + "clientPort=2182", myid: "2", err: "DIR/zoo.cfg:7: clients at 0.0.0.0:2182, but server.2 says 0.0.0.0:2181; make the two agree, or leave clientPort and clientPortAddress out"},
		{name: "case 383 another address than the own line", cfg: three + "clientPort=2181\nclientPortAddress=10.0.0.1", myid: "2", err: "DIR/zoo.cfg:7: clients at 10.0.0.1:2181, but server.2 says 0.0.0.0:2181; make the two agree, or leave clientPort and clientPortAddress out"},
		{name: "case 383 the port of the own line", cfg: three + "clientPort=2181", myid: "2", check: func(c Config) bool { return c.ClientAddr == "0.0.0.0:2181" }},
		{name: "case 383 any address, the line has one", cfg: strings.Replace(three, ";2181", ";10.0.0.1:2181", 1) + "clientPort=2181", myid: "1", check: func(c Config) bool { return c.ClientAddr == "10.0.0.1:2181" }},
		{name: "case 383 a port without one in the own line", cfg: strings.ReplaceAll(three, ";2181", "") + "clientPort=2182", myid: "2", check: func(c Config) bool {
			return c.ClientAddr == "0.0.0.0:2182" && c.Servers[1].String() == "server.2=b:2888:3888:participant"
		}},
		{name: "case 347 two voting server lines, no myid", cfg: "initLimit=5\nsyncLimit=2\nserver.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181", err: "DIR/myid is missing: it must hold the number of this member, 1 to 255"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"zoo.cfg": "dataDir=DIR\n" + tt.cfg, "dynamic": tt.dynamic}
			if tt.noData {
				files["zoo.cfg"] = tt.cfg
			}
			if tt.myid != "" {
				files["myid"] = tt.myid
			}
			dir, at := inDir(t, files)
			cfg, warnings, err := Load(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
			if got := fmt.Sprint(err); tt.err != "" && got != at(tt.err) {
				t.Fatalf("Load: %s\nwant  %s", got, at(tt.err))
			}
			if tt.err != "" {
				return
			}
			if err != nil || !tt.check(cfg) {
				t.Errorf("Load = %+v, %v", cfg, err)
			}
			if got := texts(warnings); !strings.Contains(got, at(tt.warning)) || tt.warning == "" && got != "" {
				t.Errorf("warnings:\n%s\nwant %q", got, at(tt.warning))
			}
		})
	}
}

func TestLoadServedKeys(t *testing.T) {
	dir, at := inDir(t, map[string]string{"myid": "2", "zoo.cfg": three + `
dataDir = DIR
zookeeper.dataLogDir: DIR/log
tickTime 2000
minSessionTimeout=3000
maxSessionTimeout=-1
maxClientCnxns=0
zookeeper.maxCnxns=7
jute.maxbuffer=0x1FFFFF
zookeeper.globalOutstandingLimit=200
snapCount=5000
connectionOutstandingLimit=9
connectionUnreadLimit=65536
pathLengthLimit=2048
aclEntryLimit=12
identityLimit=3
clientMemoryLimit=50000000
handshakeTimeout=700
storeStallLimit=900
failover=Fast
zookeeper.4lw.commands.whitelist=ruok, mntr,\
    ,srvr
zookeeper.DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=
skipACL=YES
quorumListenOnAllIPs=TRUE
extendedTypesEnabled=true
enforceQuota=true
reconfigEnabled=TRUE
znode.container.checkIntervalMs=1000
zookeeper.znode.container.maxPerMinute=77
znode.container.maxNeverUsedIntervalMs=2500
`})
	cfg, warnings, err := Load(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("Load: %v, warnings:\n%s", err, texts(warnings))
	}
	line := func(id uint32, host string) serverlist.Server {
		return serverlist.Server{ID: id, Host: host, QuorumPort: 2888, ElectionPort: 3888, ClientHost: "0.0.0.0", ClientPort: 2181}
	}
	want := newRawConfig("", environ{}, Flags{}, nil).config // the defaults, so only keys that are set above need a line here
	want.Dir, want.LogDir, want.Tick, want.InitLimit, want.SyncLimit = dir, at("DIR/log"), 2*time.Second, 5, 2
	want.MinTimeout, want.MaxTimeout = 3*time.Second, 40*time.Second
	l := &want.Limits
	l.MaxClientConns, l.MaxConns, l.MaxBuffer, l.MaxInFlight, l.MaxUnread = -1, 7, 0x1FFFFF, 9, 65536
	l.MaxPath, l.MaxACL, l.MaxIdentities = 2048, 12, 3
	l.Budget, l.Handshake = 50_000_000, 700*time.Millisecond
	want.MaxInFlight, want.SnapCount, want.StoreStallLimit, want.HeartbeatTimeout = 200, 5000, 900*time.Millisecond, 150*time.Millisecond
	want.CommandWhitelist, want.SuperDigest = []string{"ruok", "mntr", "srvr"}, "super:lK75jTNcA+U9vtVEw5vB51mj/w4="
	want.Rules = znode.Rules{SkipACL: true, TTLNodes: true, EnforceQuota: true, Reconfig: true}
	want.Reaping = leader.Reaping{Interval: time.Second, PerMinute: 77, NeverUsed: 2500 * time.Millisecond}
	want.MyID, want.IDSource, want.Servers = 2, filepath.Join(dir, "myid"), []serverlist.Server{line(1, "a"), line(2, "b"), line(3, "c")}
	want.ClientAddr, want.ListenOnAllIPs, want.HTTP.Addr = "0.0.0.0:2181", true, "127.0.0.1:8080"
	cfg.Keys = nil // TestCheckVerdicts is about these
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("Load:\n%+v, want\n%+v", cfg, want)
	}
}

// A key without effect causes a warning, and a refused key or value causes an error. A value that
// asks for nothing causes neither.
func TestLoadOtherKeys(t *testing.T) {
	tests := []struct{ name, line, warning, err string }{
		{name: "no effect", line: "preAllocSize=1", warning: "zoo.cfg:3: preAllocSize has no effect: the log store sizes its files itself"},
		{name: "no effect, and nothing asked for", line: "forceSync=Yes"},
		{name: "no effect, and something asked for", line: "forceSync=no", warning: "zoo.cfg:3: forceSync has no effect: "},
		{name: "no effect, pattern", line: "ssl.sslProvider=hush", warning: "zoo.cfg:3: ssl.sslProvider has no effect: "},
		{name: "no effect, longest pattern", line: "zookeeper.quorum.auth.learnerLoginContext=x", warning: "quorum.auth.learnerLoginContext has no effect: no version of ZooKeeper reads it, though some pages have quorum.auth.server.loginContext and learner.loginContext; they are server.saslLoginContext and learner.saslLoginContext"},
		{name: "removals in a minute", line: "znode.container.maxPerMinute=0", err: "must be 1 to 2147483647"},
		{name: "reconfig", line: "reconfigEnabled=yes", err: "zoo.cfg:3: reconfigEnabled=yes: must be true or false"},
		{name: "refused", line: "ssl.context.supplier.class=x", err: "zoo.cfg:3: ssl.context.supplier.class=x: refused: Java classes cannot be loaded; leave it out"},
		{name: "refused, and nothing asked for", line: "zookeeper.sslQuorum=FALSE"},
		{name: "certificates of members without a key", line: "sslQuorum=true", err: "zoo.cfg:3: sslQuorum=true needs ssl.quorum.keyStore.location; set it, or"},
		{name: "certificates of members without an authority", line: "ssl.quorum.keyStore.location=k.pem\nsslQuorum=true", err: "zoo.cfg:4: sslQuorum=true needs ssl.quorum.trustStore.location; set it, or"},
		{
			name: "certificates prepared without an authority", line: "portUnification=true\nssl.quorum.keyStore.location=k.pem",
			err: "zoo.cfg:4: ssl.quorum.keyStore.location with portUnification=true needs ssl.quorum.trustStore.location; set it, or leave ssl.quorum.keyStore.location out",
		},
		{name: "certificates prepared", line: "portUnification=true\nssl.quorum.keyStore.location=k.pem\nssl.quorum.trustStore.location=t.pem"},
		{name: "a key of members that is not used", line: "ssl.quorum.keyStore.location=k.pem", warning: "zoo.cfg:3: ssl.quorum.keyStore.location has no effect without sslQuorum, portUnification, admin.forceHttps or admin.portUnification"},
		{name: "lines required of no audit log", line: "audit.required=true", err: "zoo.cfg:3: audit.required=true needs audit.enable=true; set it, or leave audit.required out"},
		{name: "lines required of a log that is off", line: "audit.enable=false\naudit.required=true", err: "zoo.cfg:4: audit.required=true needs audit.enable=true"},
		{name: "lines required of an audit log", line: "audit.required=true\naudit.enable=true"},
		{name: "lines not required of no audit log", line: "audit.required=false"},
		{name: "refused, and something asked for", line: "zookeeper.multiAddress.enabled=true", err: "zoo.cfg:3: multiAddress.enabled=true: refused: a server line takes one address, by which the others know the member: write a name that moves with the network, or join the links (bonding); must be false"},
		{name: "election algorithm", line: "electionAlg=1", err: "zoo.cfg:3: electionAlg=1: refused: members elect by raft; ZooKeeper rejects other values too; must be 3"},
		{name: "observer alone", line: "peerType=observer", warning: "zoo.cfg:3: peerType=observer has no effect on a standalone server"},
		{name: "participant", line: "peerType=participant"},
		{name: "another peerType", line: "peerType=learner", err: "zoo.cfg:3: peerType=learner: must be observer or participant"},
		{name: "local sessions", line: "localSessionsEnabled=true", warning: "localSessionsEnabled has no effect: every session is global"},
		{name: "group", line: "group.1=1:2", err: "zoo.cfg:3: group.1=1:2: refused: "},
		{name: "weight", line: "weight.1=2", err: "weight.1=2: must be 1, or 0 for an observer"},
		{name: "weight of a server without a line", line: "weight.9=0", err: "weight.9=0, and there is no server.9"},
		{name: "old TTL nodes", line: "zookeeper.emulate353TTLNodes=true", warning: "emulate353TTLNodes has no effect: it is about files in which ZooKeeper 3.5.3"},
		{name: "a key of other people's files", line: "jaasLoginRenew=3600000", warning: "jaasLoginRenew has no effect: no version of ZooKeeper reads it"},
		{name: "a short maxbuffer", line: "jute.maxbuffer=100"},
		{name: "unproved members without TLS", line: "ssl.quorum.clientAuth=none"},
		{
			name: "unproved members", line: "sslQuorum=true\nssl.quorum.keyStore.location=k.pem\nssl.quorum.trustStore.location=t.pem\nssl.quorum.clientAuth=none",
			err: "zoo.cfg:6: ssl.quorum.clientAuth=none: refused: with sslQuorum or portUnification, members always prove themselves to each other; leave it out",
		},
		{name: "weight of one", line: "weight.1=1"},
		{name: "tick that is none", line: "tickTime=2s", err: "zoo.cfg:3: tickTime=2s: must be 1 to 3600000 (ms)"},
		{name: "maxbuffer too large", line: "jute.maxbuffer=2147483648", err: "zoo.cfg:3: jute.maxbuffer=2147483648: must be 64 to 2147483647 (bytes)"},
		{name: "share above 1", line: "connection_throttle_decrease_ratio=1.1", err: "zoo.cfg:3: connection_throttle_decrease_ratio=1.1: must be 0 to 1, with decimals"},
		{name: "share that is no number", line: "connection_throttle_drop_increase=NaN", err: "must be 1e-06 to 1, with decimals"},
		{name: "data quota without its unit", line: "dataQuota=10", err: "zoo.cfg:3: dataQuota=10: must be 0, or 1M to 1024T; bytes, or with K, M, G or T after the number"},
		{name: "too much memory", line: "memoryLimit=91%", err: "zoo.cfg:3: memoryLimit=91%: must be 1% to 90%, or 0, or 64M to 1024T; bytes, or with K, M, G or T after the number"},
		{name: "no percentage", line: "memoryLimit=%", err: "memoryLimit=%: must be"},
		{name: "too little memory", line: "memoryLimit=63M", err: "memoryLimit=63M: must be"},
		{
			name: "limit without a subject", line: "limit.x=requests=5",
			err: "zoo.cfg:3: limit.x=requests=5: must begin with address, each address, identity SCHEME:ID",
		},
		{name: "limit without a name", line: "limit.=address requests=5", err: "zoo.cfg:3: limit.=address requests=5: the name of a limit has 1 to 64 letters"},
		{name: "weight of 0", line: "zookeeper.connection_throttle_renew_session_weight=0", err: "must be 1 to 1000"},
		{name: "maxbuffer, hexadecimal rubbish", line: "jute.maxbuffer=0x-5", err: "must be 64"},
		{name: "minimum above maximum", line: "minSessionTimeout=70000", err: "zoo.cfg:3: minSessionTimeout is 70000 ms, maxSessionTimeout 60000 ms: the minimum must not exceed the maximum"},
		{name: "maximum below the default minimum", line: "maxSessionTimeout=5999", err: "zoo.cfg:3: minSessionTimeout is 6000 ms, maxSessionTimeout 5999 ms: the minimum must not exceed the maximum"},
		{name: "timeout of 0", line: "minSessionTimeout=0", err: "zoo.cfg:3: minSessionTimeout=0: must be 1 to 2147483647 (ms), or -1 for the default"},
		{name: "yes or no", line: "skipACL=true", err: "zoo.cfg:3: skipACL=true: must be yes or no"},
		{name: "secret", line: "DigestAuthenticationProvider.superDigest=hush", err: "zoo.cfg:3: DigestAuthenticationProvider.superDigest: must be <user>:<digest>"},
		{name: "twice", line: "tickTime=1000\ntickTime=1000", warning: "DIR/zoo.cfg:4: tickTime again, first in DIR/zoo.cfg:3: this one counts"},
		{name: "server twice", line: "server.1=a:1:2\nserver.1=b:1:2", err: "zoo.cfg:4: duplicate server.1, first in DIR/zoo.cfg:3"},
		{name: "server twice, other digits", line: "server.1=a:1:2\nserver.01=b:1:2", err: "zoo.cfg:4: server.01=b:1:2: duplicate server 1"},
		{name: "server without a number", line: "server.x=a:1:2", err: "zoo.cfg:3: server.x=a:1:2: the number after server. must be 1 to 255"},
		{name: "server 0", line: "server.0=a:1:2\nserver.1=b:1:2\nserver.2=c:1:2", err: "zoo.cfg:3: server.0=a:1:2: the number after server. must be 1 to 255; in place of ZooKeeper's 0, write server.3 in the configuration of all members, and 3 into the myid of that server"},
		{name: "server 0 last", line: "server.3=c:1:2\nserver.1=a:1:2\nserver.00=b:1:2", err: "zoo.cfg:5: server.00=b:1:2: the number after server. must be 1 to 255; in place of ZooKeeper's 0, write server.2 in"},
		{name: "server 256", line: "server.256=a:1:2", err: "the number after server. must be 1 to 255"},
		{name: "server 255 with TTL nodes", line: "extendedTypesEnabled=true\nserver.255=a:1:2", err: "zoo.cfg:4: server.255: with extendedTypesEnabled, N must be 1 to 254"},
		{name: "long value", line: "tickTime=" + strings.Repeat("9", 500), err: "tickTime=" + strings.Repeat("9", 80) + "...: must"},
		{name: "escapes in messages", line: `tickTime=\n\u001b[31m`, err: "tickTime=?[31m: must"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, at := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\nclientPort=0\n" + tt.line})
			_, warnings, err := Load(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
			if (err != nil) != (tt.err != "") || !strings.Contains(fmt.Sprint(err), at(tt.err)) {
				t.Errorf("Load: %v, want %s", err, at(tt.err))
			}
			got := texts(warnings)
			if !strings.Contains(got, at(tt.warning)) || tt.err == "" && tt.warning == "" && got != "" {
				t.Errorf("warnings:\n%s\nwant %q", got, at(tt.warning))
			}
			if strings.Contains(got+fmt.Sprint(err), "hush") {
				t.Errorf("the secret is in %s, %v", got, err)
			}
		})
	}
}

func TestLoadAddresses(t *testing.T) {
	const limits = "initLimit=5\nsyncLimit=2\nclientPort=2181\n"
	tests := []struct{ name, servers, err string }{
		{name: "loopback and wildcard clients may repeat", servers: "server.1=a:1:2;2181\nserver.2=b:1:2;2181\nserver.3=c:1:2;127.0.0.1:2181\nserver.4=d:1:2;127.0.0.1:2181"},
		{name: "one machine, other ports", servers: "server.1=127.0.0.1:1:2\nserver.2=127.0.0.1:3:4"},
		{name: "quorum ports", servers: "server.1=h:1:2\nserver.2=H:1:4", err: "server.2=H:1:4:participant: server.1 has the address h:1 too"},
		{name: "quorum and election port", servers: "server.1=localhost:1:2\nserver.2=localhost:2:4", err: "server.1 has the address localhost:2 too"},
		{name: "IPv6 in two spellings", servers: "server.1=[fe80::1]:1:2\nserver.2=[FE80:0::1]:1:4", err: "server.1 has the address [fe80::1]:1 too"},
		{name: "client addresses", servers: "server.1=a:1:2;10.0.0.1:2181\nserver.2=b:1:2;10.0.0.1:2181", err: "server.1 has the address 10.0.0.1:2181 too"},
		{name: "wildcard", servers: "server.1=0.0.0.0:1:2\nserver.2=b:1:2", err: "no member can be reached at 0.0.0.0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := "dataDir=DIR\n" + limits + tt.servers
			if strings.Contains(tt.servers, ";") {
				text = strings.Replace(text, "clientPort=2181\n", "", 1)
			}
			dir, _ := inDir(t, map[string]string{"zoo.cfg": text, "myid": "1"})
			_, _, err := Load(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
			if (err != nil) != (tt.err != "") || !strings.Contains(fmt.Sprint(err), tt.err) {
				t.Errorf("Load: %v, want %q", err, tt.err)
			}
		})
	}
}

func TestLoadFlags(t *testing.T) {
	dir, at := inDir(t, map[string]string{"zoo.cfg": "dataDir=/nowhere\ntickTime=2000\n" + three, "myid": "1"})
	flags := parseFlags(t, "-data", dir, "-client", ":0", "-myid=3", "-tick", "500", "--new-ensemble",
		"-set", "snapCount=10", "-set", "zookeeper.syncLimit=9", "-set", "snapCount=20", "-set", "server.2=bb:1:2", "-set", "foo=")
	cfg, warnings, err := Load(filepath.Join(dir, "zoo.cfg"), nil, flags)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Dir != dir || cfg.ClientAddr != "0.0.0.0:0" || cfg.MyID != 3 || cfg.Tick != 500*time.Millisecond || !cfg.NewEnsemble ||
		cfg.SnapCount != 20 || cfg.SyncLimit != 9 || cfg.Servers[1].QuorumAddr() != "bb:1" {
		t.Errorf("Load = %+v", cfg)
	}
	want := at("--set: snapCount again, first in --set: this one counts\n--set: unknown key foo\n--myid: DIR/myid says 1; 3 counts")
	if got := texts(warnings); got != want {
		t.Errorf("warnings:\n%s\nwant\n%s", got, want)
	}
	for args, want := range map[string]string{
		"-tick=2s":          "--tick: tickTime=2s: must be 1 to 3600000 (ms)",
		"-myid=0":           "--myid 0: must be 1 to 255; in place of ZooKeeper's 0, it is the number of this member's server line",
		"-client=2181":      "--client 2181: must be host:port",
		"-client=h:65536":   "--client h:65536: port: must be 0 to 65535",
		"-client=a b:2181":  `--client: host "a b": must be a name, an IPv4 address or an IPv6 address in brackets`,
		"-set=sslQuorum=on": "--set: sslQuorum=on: must be true or false",
	} {
		if _, _, err := Load(filepath.Join(dir, "zoo.cfg"), nil, parseFlags(t, "-data", dir, args)); err == nil || err.Error() != want {
			t.Errorf("Load with %s: %v, want %s", args, err, want)
		}
	}
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	new(Flags).Register(fs)
	if err := fs.Parse([]string{"-set", "tickTime"}); err == nil {
		t.Error("-set without = was accepted")
	}
}

// If a file or directory cannot be used, the error names it and says what it must be.
func TestLoadUnusableFiles(t *testing.T) {
	const readable = "; name a zoo.cfg that this user may read, or none to use the one in ZOO_CONF_DIR or the ZOO_ variables"
	const myid = "; dataDir must be a directory, and its myid a file that this user may read, with the number of this member"
	dir, _ := inDir(t, map[string]string{"file": "", "directory.cfg": "dataDir=DIR\nclientPort=0", "file.cfg": "dataDir=DIR/file\nclientPort=0"})
	for _, name := range []string{"myid", "conf/zoo.cfg"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	here := func(text string) string { return strings.ReplaceAll(text, "HERE", dir) }
	for _, tt := range []struct {
		name, file string
		env        []string
		want       string
	}{
		{name: "no file", file: "HERE/none", want: "open HERE/none: no such file or directory" + readable},
		{name: "directory", file: "HERE", want: "read HERE: is a directory" + readable},
		{name: "directory in ZOO_CONF_DIR", env: []string{"ZOO_CONF_DIR=" + dir + "/conf"}, want: "read HERE/conf/zoo.cfg: is a directory; ZOO_CONF_DIR must name a directory with a zoo.cfg that this user may read, or with none"},
		{name: "myid is a directory", file: "HERE/directory.cfg", want: "read HERE/myid: is a directory" + myid},
		{name: "dataDir is a file", file: "HERE/file.cfg", want: "open HERE/file/myid: not a directory" + myid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := Load(here(tt.file), tt.env, Flags{}); err == nil || err.Error() != here(tt.want) {
				t.Errorf("Load: %v\nwant  %s", err, here(tt.want))
			}
		})
	}
}

// If the member's number cannot be saved, the error says what dataDir must be.
func TestSaveMyIDAdvises(t *testing.T) {
	dir, _ := inDir(t, map[string]string{"file": ""})
	c := Config{Settings: Settings{Dir: filepath.Join(dir, "file", "data")}, idToSave: 1}
	const want = "not a directory; dataDir must be a directory that this user may make and write: the number of this member is kept there"
	if err := c.SaveMyID(); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("SaveMyID: %v, want %s", err, want)
	}
}
