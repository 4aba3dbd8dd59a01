package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A command finds the data of its machine's member without the files that only the member may read.
func TestLocate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	text := "dataDir=/var/lib/rollcall\nclientPort=2181\nsecureClientPort=2281\nadmin.tokenFile=/nowhere\nDigestAuthenticationProvider.superDigestPath=/nowhere\nserver.1=a:2888:3888;0.0.0.0:2182\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file string
		env  []string
		dir  string
		want []string
	}{
		{file, nil, "/var/lib/rollcall", []string{"2181", "2281", "2182"}},
		{"", []string{"ZOO_CONF_DIR=" + dir}, "/var/lib/rollcall", []string{"2181", "2281", "2182"}},
		{"", []string{"ZOO_CONF_DIR=/nowhere", "ZOO_DATA_DIR=/d", "ZOO_SERVERS=server.1=a:1:2;2183"}, "/d", []string{"2183"}},
	} {
		at, err := LocateMember(tt.file, tt.env)
		if err != nil || at.Dir != tt.dir || !slices.Equal(at.ClientPorts, tt.want) {
			t.Errorf("%q %q: %+v, %v, want %s %q", tt.file, tt.env, at, err, tt.dir, tt.want)
		}
	}
	if at, err := LocateMember("/nowhere", nil); err == nil || at.Dir != "" {
		t.Errorf("no file: %+v, %v", at, err)
	}
}
