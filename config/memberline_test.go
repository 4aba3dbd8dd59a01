package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// With members.line, a member whose number is above those of all server lines has the line of the pattern, and the others have what they
// had before. So the voter with the lowest number, which alone may begin an ensemble, never has a line of the pattern.
func TestMemberLine(t *testing.T) {
	const (
		pattern = "members.line=pod-{ordinal}.pods:2888:3888;2181\n"
		lines   = "server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181\nserver.3=c:2888:3888;2181\n"
	)
	for _, tt := range []struct {
		name, host, lines string
		want              string // the list of servers, or, if it begins with no server, a part of the error
	}{
		{"a server line", "pod-2", lines + pattern, "server.1=a server.2=b server.3=c"},
		{"the next number", "pod-3", lines + pattern, "server.1=a server.2=b server.3=c server.4=pod-3.pods"},
		{"a later number", "pod-31", lines + pattern, "server.1=a server.2=b server.3=c server.32=pod-31.pods"},
		{"the number, not the ordinal", "pod-3", lines + "members.line=m{id}:2888:3888;2181\n", "server.1=a server.2=b server.3=c server.4=m4"},
		{"one server line", "pod-1", "server.1=a:2888:3888;2181\n" + pattern, "server.1=a server.2=pod-1.pods"},
		{"an observer", "pod-3", lines + "members.line=m{id}:2888:3888:observer;2181\n", "server.1=a server.2=b server.3=c server.4=m4"},
		{"no pattern", "pod-3", lines, "this is member 4 (the host name pod-3), and there is no server.4"},
		{"members do not come", "pod-3", lines + pattern + "members.join=off\n", "and there is no server.4"},
		{"the lowest number", "pod-0", "server.2=b:2888:3888;2181\nserver.3=c:2888:3888;2181\n" + pattern, "members.line: this is member 1 (the host name pod-0), and there is a server.3: members.line is for numbers above those of all server lines; write server.1"},
		{"a number between", "pod-1", "server.1=a:2888:3888;2181\nserver.3=c:2888:3888;2181\n" + pattern, "write server.2"},
		{"no server line", "pod-1", pattern, "standaloneEnabled=false needs a server line"},
		{"observers alone", "pod-1", "server.1=a:2888:3888:observer;2181\n" + pattern, "all servers are observers"},
		{"a taken address", "pod-2", "server.1=a:2888:3888;2181\nserver.2=m3:2888:3888;2181\nmembers.line=m{id}:2888:3888;2181\n", "members.line: server.3=m3:2888:3888:participant;0.0.0.0:2181: server.2 has the address m3:2888 too"},
		{"one address for all", "pod-3", lines + "members.line=pod:2888:3888;2181\n", "it gives two members one address: server.2=pod:2888:3888:participant;0.0.0.0:2181: server.1 has the address pod:2888 too"},
		{"no port for clients", "pod-3", lines + "members.line=pod-{id}:2888:3888\n", "write ;clientPort at the end"},
		{"no line", "pod-3", lines + "members.line=pod-{id}\n", "members.line=pod-{id}: must be host:quorumPort:electionPort"},
		{"no host", "pod-3", lines + "members.line=pod-{number}:2888:3888;2181\n", "must be a name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "dataDir=DIR/data\ninitLimit=5\nsyncLimit=2\nstandaloneEnabled=false\nserverIdFromHostname=true\nensembleSecretFile=DIR/secret\n" + tt.lines
			if !strings.Contains(text, "members.join") {
				text += "members.join=auto\n"
			}
			dir, _ := inDir(t, map[string]string{"zoo.cfg": text})
			if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
				t.Fatal(err)
			}
			cfg, _, err := Load("", []string{"ZOO_CONF_DIR=" + dir, "HOSTNAME=" + tt.host}, Flags{})
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) || strings.HasPrefix(tt.want, "server.") {
					t.Errorf("Load: %v, want %s", err, tt.want)
				}
				return
			}
			var got []string
			for _, s := range cfg.Servers {
				got = append(got, fmt.Sprintf("server.%d=%s", s.ID, s.Host))
				if s.ID == cfg.MyID && (s.Observer != (tt.name == "an observer") || cfg.ClientAddr != "0.0.0.0:2181") {
					t.Errorf("its own line is %v, with clients at %s", s, cfg.ClientAddr)
				}
			}
			if strings.Join(got, " ") != tt.want || cfg.Servers.Voters()[0] != 1 {
				t.Errorf("the servers are %q, want %s", got, tt.want)
			}
		})
	}
}
