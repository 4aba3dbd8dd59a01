package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall/server"
)

// Conf returns ZooKeeper's lines in ZooKeeper's order. The keys and values are written as in
// zoo.cfg.
func TestConf(t *testing.T) {
	s := Settings{
		Dir: "/data", LogDir: "/log", Tick: 2 * time.Second, InitLimit: 10, SyncLimit: 5,
		MinTimeout: 4 * time.Second, MaxTimeout: 40 * time.Second, Limits: server.Limits{MaxClientConns: 60},
	}
	const first = "clientPort=2181 secureClientPort=2281 dataDir=/data dataDirSize=510 dataLogDir=/log dataLogSize=1000 tickTime=2000 "
	const second = " minSessionTimeout=4000 maxSessionTimeout=40000 clientPortListenBacklog=-1 "
	for _, tt := range []struct {
		name     string
		ensemble string
		conns    int
		want     string
	}{
		{"ensemble", "server.1=a:2888:3888:participant\nversion=0", 60, first + "maxClientCnxns=60" + second +
			"serverId=3 initLimit=10 syncLimit=5 electionAlg=3 electionPort=3888 quorumPort=2888 peerType=0"},
		{"observer", "server.3=a:2888:3888:observer\nversion=0", 60, first + "maxClientCnxns=60" + second +
			"serverId=3 initLimit=10 syncLimit=5 electionAlg=3 electionPort=3888 quorumPort=2888 peerType=1"},
		{"standalone", "", 60, first + "maxClientCnxns=60" + second + "serverId=0"},
		{"no limit", "", -1, first + "maxClientCnxns=0" + second + "serverId=0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.Limits.MaxClientConns = tt.conns
			var lines []string
			for _, line := range ConfLines(s, RuntimeValues{
				ClientPort: 2181, SecurePort: 2281, DataSize: 510, LogSize: 1000, MemberID: 3, ElectionPort: 3888, QuorumPort: 2888, Ensemble: tt.ensemble, Observer: tt.name == "observer",
			}) {
				lines = append(lines, fmt.Sprintf("%s=%s", line.Name, line.Value))
			}
			if got := strings.Join(lines, " "); got != tt.want {
				t.Errorf("Conf:\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
