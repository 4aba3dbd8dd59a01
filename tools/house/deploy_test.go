package house

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"rollcall/operator/api"
)

// The configurations that are deployed as they are decide about loopback addresses wherever HTTP listens for other machines. A member
// that they start does not warn, and keeps the answer that its drain needs: without loopback there must be a socket.
func TestDeployedMembersDecideAboutLoopback(t *testing.T) {
	t.Chdir("../..")
	for _, tt := range []struct{ file, http, decision string }{
		{"deploy/kubernetes/config.yaml", "admin.serverAddress=0.0.0.0", "admin.loopbackTrust=true"}, // its volume has no socket
		{"deploy/chart/values.yaml", "", "admin.loopbackTrust: true"},
		{"docs/production.md", "admin.forceHttps=true", "admin.loopbackTrust=false"}, // its commands use the socket
	} {
		text, err := os.ReadFile(tt.file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{tt.http, tt.decision} {
			if !regexp.MustCompile(`(?m)^ *` + regexp.QuoteMeta(line)).Match(text) {
				t.Errorf("%s has no line %q", tt.file, line)
			}
		}
	}
}

// A drain that the unit, the recipe for it or the manifests run before a stop ends before the process is killed. It
// tries to hand over for as long as it may take to close connections.
func TestDrainsEndBeforeTheKill(t *testing.T) {
	t.Chdir("../..")
	const spare = 10 * time.Second // for the answer, and for the stop after it
	find := func(file, pattern, unit string) time.Duration {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)
		if len(found) != 1 {
			t.Fatalf("%s has %d times %q, want 1", file, len(found), pattern)
		}
		d, err := time.ParseDuration(strings.Replace(found[0][1]+unit, "min", "m", 1))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		return d
	}
	const service, manifest = "deploy/systemd/rollcall.service", "deploy/kubernetes/statefulset.yaml"
	serviceKill := find(service, `(?m)^TimeoutStopSec=(\w+)$`, "")
	for _, tt := range []struct {
		file, pattern string
		kill          time.Duration
	}{
		{service, `ExecStop=/usr/bin/rollcall drain --over (\w+)`, serviceKill},
		{"docs/deploy.md", `ExecStop=/usr/bin/rollcall drain --over (\w+)`, serviceKill},
		{manifest, `/rollcall, drain, --over, (\w+)`, find(manifest, `terminationGracePeriodSeconds: (\d+)`, "s")},
	} {
		over := find(tt.file, tt.pattern, "")
		if longest := max(over, api.MinHandOver) + over; longest+spare > tt.kill {
			t.Errorf("%s: drain --over %v takes up to %v, and the process is killed after %v", tt.file, over, longest, tt.kill)
		}
	}
}
