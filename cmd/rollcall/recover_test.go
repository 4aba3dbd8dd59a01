package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/member"
	"rollcall/quorum/disk"
)

func findingOf(id uint32, index, term uint64) member.Finding {
	return member.Finding{Server: member.Server{ID: id, RaftAddr: fmt.Sprintf("m%d:3888", id)}, DataEnd: disk.DataEnd{Index: index, Term: term}}
}

// recover prints the extent of each member's data, and the member with the most. Times
// are in UTC wherever the machine is.
func TestRecoverDescribes(t *testing.T) {
	own := findingOf(1, 40, 3)
	own.LastTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).In(time.FixedZone("elsewhere", -5*3600))
	silent := member.Finding{Server: member.Server{ID: 4, RaftAddr: "m4:3888"}, Err: errors.New("no route")}
	text := describeFindings([]member.Finding{own, findingOf(2, 90, 2), findingOf(3, 0, 0), silent})
	for _, want := range []string{
		"Member 1 (m1:3888): data up to index 40 of term 3, written 2026-01-02 03:04:05 UTC\n",
		"Member 2 (m2:3888): data up to index 90 of term 2\n", "Member 3 (m3:3888): no data\n",
		"Member 4 (m4:3888): unknown", "Member 1 has the most data of those that are known.\n", "answer no, and compare",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if text := describeFindings([]member.Finding{own, findingOf(2, 41, 3)}); !strings.HasSuffix(text, "Member 2 has the most data.\n") {
		t.Errorf("%q", text)
	}
}

// recover rejects a survivor if another member has more data.
func TestRecoverRefusesTheLesser(t *testing.T) {
	silent := member.Finding{Server: member.Server{ID: 3}, Err: errors.New("no route")}
	for _, tt := range []struct {
		other member.Finding
		want  string
	}{
		{findingOf(2, 41, 3), "member 2 (m2:3888) has more data than member 1"},
		{findingOf(2, 1, 4), "-force"},
		{findingOf(2, 40, 3), ""},
		{findingOf(2, 90, 2), ""},
		{findingOf(2, 0, 0), ""},
	} {
		err := checkFirstHasMost([]member.Finding{findingOf(1, 40, 3), tt.other, silent})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("index %d of term %d: %v, want %q", tt.other.Index, tt.other.Term, err, tt.want)
		}
	}
}

// Without data, recover fails and creates nothing.
func TestRecoverWithoutData(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	data := filepath.Join(dir, "data")
	if err := os.WriteFile(file, []byte("dataDir="+data+"\nclientPort=2181\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := runCommand(t.Context(), []string{"recover", "-yes", file}, nil, &out, &out); !errors.Is(err, disk.ErrNoData) {
		t.Errorf("%v, want ErrNoData\n%s", err, out.String())
	}
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory was created: %v", err)
	}
}

// The server lines of zoo.cfg and the servers of the data are compared by number, ports for members and role. Addresses for clients,
// and the role of the member that is recovered, do not count.
func TestRecoverComparesServers(t *testing.T) {
	line := func(id uint32, text string) serverlist.Server {
		s, err := serverlist.ParseServer(id, text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	stored := serverlist.List{line(1, "a:2888:3888;2181"), line(2, "b:2888:3888"), line(3, "c:2888:3888:observer")}
	for name, tt := range map[string]struct {
		written serverlist.List
		want    string
	}{
		"the same":           {stored, ""},
		"other client ports": {serverlist.List{line(1, "a:2888:3888"), stored[1], stored[2]}, ""},
		"its own role":       {serverlist.List{line(1, "a:2888:3888:observer"), stored[1], stored[2]}, ""},
		"another one's role": {serverlist.List{stored[0], stored[1], line(3, "c:2888:3888")}, "zoo.cfg has server.3=c:2888:3888:participant, and the data have server.3=c:2888:3888:observer"},
		"another address":    {serverlist.List{stored[0], line(2, "z:2888:3888"), stored[2]}, "zoo.cfg has server.2=z:2888:3888:participant, and the data have server.2=b:2888:3888:participant"},
		"one is missing":     {stored[:2], "the data have member 3 (c:2888), and zoo.cfg does not"},
		"one was replaced":   {serverlist.List{stored[0], stored[1], line(4, "d:2888:3888:observer")}, "zoo.cfg has member 4 (d:2888), and the data do not\nthe data have member 3 (c:2888), and zoo.cfg does not"},
	} {
		if got := strings.Join(serverDifferences(1, tt.written, stored), "\n"); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
