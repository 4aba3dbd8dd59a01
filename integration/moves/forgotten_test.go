package moves

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"rollcall/client"
	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// One of three ZooKeeper servers is behind, and its directory is given with its logs. The others' logs, which have all
// later writes, are left out. The import is rejected, whether or not zoo.cfg has a dataLogDir. With all directories, it
// has every write.
func TestForgottenLogs(t *testing.T) {
	needs.Check(t, needs.Kazoo)
	needs.Check(t, needs.Usual)
	const later = 300
	s := newSite(t, 3, true)
	for _, m := range s.servers { // no snapshot shows which server is ahead
		changed(t, m.Config, m.Config, fmt.Sprintf("snapCount=%d\n", snapCount), "snapCount=100000\n")
	}
	s.startZooKeeper()
	behind := slices.IndexFunc(s.servers, func(m *server) bool { return m.Mode() == "follower" })
	if _, _, err := open(t, s.servers[behind].Clients).Create(t.Context(), "/before", nil, client.Persistent); err != nil { // so that it has a log
		t.Fatal(err)
	}
	process.KillAll([]*process.Member{&s.servers[behind].Member})
	var ahead []string
	for i, m := range s.servers {
		if i != behind {
			ahead = append(ahead, m.Clients)
		}
	}
	c := open(t, ahead...)
	for n := range later {
		if _, _, err := c.Create(t.Context(), fmt.Sprintf("/later-%d", n), nil, client.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	stat, _, err := c.Exists(t.Context(), fmt.Sprintf("/later-%d", later-1))
	if err != nil {
		t.Fatal(err)
	}
	s.kill()

	given := s.directories()
	for i, m := range s.servers {
		if i != behind {
			given[i] = m.Data
		}
	}
	m := s.servers[behind]
	check := func(config string, directories []string) (string, bool) {
		return run(t, append([]string{"import", "--check", "--config", config}, directories...)...)
	}
	if out, ok := check(m.Config, given); ok || !strings.Contains(out, "is not given: name it after a comma") {
		t.Errorf("with a dataLogDir in zoo.cfg, the import is not refused:\n%s", out)
	}
	without := m.Config + ".without"
	changed(t, m.Config, without, "dataLogDir="+m.logs+"\n", "")
	if out, ok := check(without, given); ok || !strings.Contains(out, "there is a snapshot, but no log beside it") {
		t.Errorf("without a dataLogDir in zoo.cfg, the import is not refused:\n%s", out)
	}
	if out, ok := check(m.Config, s.directories()); !ok || !strings.Contains(out, fmt.Sprintf("Carries over, up to zxid %#x:", stat.Created)) {
		t.Errorf("with all directories, the import is not up to zxid %#x:\n%s", stat.Created, out)
	}
}

// changed writes what a file has, with another text in place of old, into a file.
func changed(t *testing.T, from, to, old, text string) {
	t.Helper()
	before, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, strings.Replace(string(before), old, text, 1))
}
