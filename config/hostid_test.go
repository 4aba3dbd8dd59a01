package config

import (
	"os"
	"strings"
	"testing"
)

// podCfg is the zoo.cfg of an ensemble whose members have their numbers from the host names.
const podCfg = "dataDir=DIR/data\nclientPort=2181\ninitLimit=10\nsyncLimit=5\nserverIdFromHostname=true\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n"

// The host name gives the number, from 1 on for names from 0 on, and myid keeps it. A directory of another
// member is refused. ZOO_MY_ID has no effect, and -myid wins.
func TestIDFromHostname(t *testing.T) {
	for _, tt := range []struct {
		host, myid string // "": there is no myid
		flag       string
		want       uint32
		from       string // or, without want, a part of the error
		saved      string // what is in myid afterwards
	}{
		{"rollcall-0", "", "", 1, "the host name rollcall-0", "1\n"},
		{"my-pods-2.members.default.svc", "", "", 3, "the host name my-pods-2.members.default.svc", "3\n"},
		{"rollcall-1", "2\n", "", 2, "the host name rollcall-1", "2\n"},
		{"rollcall-1", "1\n", "", 0, "DIR/data/myid: it says 1, and the host name rollcall-1 stands for member 2: this is the directory of another member; give each member its own", "1\n"},
		{"rollcall-1", "1\n", "1", 1, "--myid", "1\n"},
		{"rollcall-3", "", "", 0, "DIR/zoo.cfg: this is member 4 (the host name rollcall-3), and there is no server.4: correct one of the two", ""},
		{"rollcall", "", "", 0, "DIR/zoo.cfg:5: serverIdFromHostname: host name rollcall: must end in a dash and a number from 0 to 254, such as rollcall-0", ""},
		{"17", "", "", 0, "host name 17: must", ""},
		{"rollcall-", "", "", 0, "host name rollcall-: must", ""},
		{"rollcall-255", "", "", 0, "host name rollcall-255: must", ""},
		{"rollcall-+1", "", "", 0, "host name rollcall-+1: must", ""},
		{"rollcall.members-1", "", "", 0, "host name rollcall.members-1: must", ""},
	} {
		dir, at := inDir(t, map[string]string{"zoo.cfg": podCfg})
		if err := os.Mkdir(at("DIR/data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if tt.myid != "" {
			if err := os.WriteFile(at("DIR/data/myid"), []byte(tt.myid), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg, warnings, err := Load("", []string{"ZOO_CONF_DIR=" + dir, "HOSTNAME=" + tt.host, "ZOO_MY_ID=3"}, Flags{myID: tt.flag})
		switch {
		case tt.want == 0:
			if err == nil || !strings.Contains(err.Error(), at(tt.from)) {
				t.Errorf("%s: %v, want %s", tt.host, err, at(tt.from))
			}
		case err != nil || cfg.MyID != tt.want || cfg.IDSource != tt.from:
			t.Errorf("%s: member %d from %s, %v; want %d from %s", tt.host, cfg.MyID, cfg.IDSource, err, tt.want, tt.from)
		default:
			if err := cfg.SaveMyID(); err != nil {
				t.Error(err)
			}
		}
		if len(warnings) > 0 && tt.flag == "" {
			t.Errorf("%s: warned %s", tt.host, texts(warnings))
		}
		saved, _ := os.ReadFile(at("DIR/data/myid"))
		if string(saved) != tt.saved {
			t.Errorf("%s: myid holds %q, want %q", tt.host, saved, tt.saved)
		}
	}
}
