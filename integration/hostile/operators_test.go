package hostile

import (
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"rollcall/integration/process"
)

const (
	operatorConns = 10_000
	// operatorFiles is how many more descriptors a member may have open than before: its limit of
	// connections over HTTP, and some that are being closed.
	operatorFiles = 200
)

// Ten thousand silent connections to a member's port for HTTP cost its clients nothing: they write
// meanwhile, new ones are served, and the member has few descriptors more than before. A probe is
// answered beside them.
func TestConnectionsForOperators(t *testing.T) {
	e, o := startMembers(t, "", process.AnyHTTP)
	victim := e.Members[0]
	addr, err := victim.HTTP()
	if err != nil {
		t.Fatal(err)
	}
	before := openFiles(t, victim)
	var written writes
	done := make(chan struct{})
	go func() {
		defer close(done)
		written = o.write(t, floodTime)
	}()
	for i := range operatorConns {
		c, err := net.DialTimeout("tcp", addr, process.Patience)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer c.Close()
	}
	client := http.Client{Timeout: process.Patience}
	answer, err := client.Get("http://" + addr + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusOK {
		t.Errorf("readyz beside %d connections: %s", operatorConns, answer.Status)
	}
	if after := openFiles(t, victim); after > before+operatorFiles {
		t.Errorf("the member has %d descriptors open, %d before; want at most %d more", after, before, operatorFiles)
	}
	openOther(t, victim, len(o.sessions))
	<-done
	if len(written) == 0 {
		t.Error("no client wrote meanwhile")
	}
}

var openLine = regexp.MustCompile(`zk_open_file_descriptor_count\t(\d+)`)

// openFiles returns how many descriptors a member has open.
func openFiles(t *testing.T, m *process.Member) int {
	t.Helper()
	text := ""
	err := process.Until(t.Context(), fmt.Sprintf("member %d answers mntr", m.ID), func() bool {
		text = m.Word("mntr")
		return openLine.MatchString(text)
	})
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(openLine.FindStringSubmatch(text)[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
