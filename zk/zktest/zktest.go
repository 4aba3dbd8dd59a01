// Package zktest checks that a server replies to clients' requests as ZooKeeper does. It is for tests of servers, and of
// doubles of servers that tests of clients use: a double that passes the same table as the real server does not drift
// from it.
//
// The table is the file replies.txt. It has what recipes need: nodes, versions, sequences, ephemeral nodes, multis and
// watches. It has no permissions, no time and no faults.
package zktest

import (
	_ "embed"
	"net"
	"strings"
	"testing"
)

//go:embed replies.txt
var replies string

// TestServer sends the requests of the table to a server, and compares its replies and events. dial opens a connection
// for a client. Each case is a subtest, has nodes of its own, and leaves some of them.
func TestServer(t *testing.T, dial func() (net.Conn, error)) {
	for _, c := range parseCases(replies) {
		t.Run(c.name, func(t *testing.T) {
			run := &caseRun{t: t, dial: dial, clients: map[string]*client{}}
			defer run.end()
			run.createRoot()
			for _, line := range c.lines {
				if got := run.send(line.client, line.request); got != line.want {
					t.Fatalf("%s %s\ngot   %s\nwant  %s", line.client, line.request, got, line.want)
				}
			}
		})
	}
}

// testCase is a case of the table.
type testCase struct {
	name  string
	lines []caseLine
}

// caseLine is a request of a client, and what the client gets until the reply to it.
type caseLine struct{ client, request, want string }

// parseCases reads a table. A line that begins with # names a case, and each other line is a client, a request and,
// after an arrow, the events and the reply.
func parseCases(text string) (cases []testCase) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "# "); ok {
			cases = append(cases, testCase{name: name})
			continue
		}
		if line == "" {
			continue
		}
		left, want, _ := strings.Cut(line, "->")
		name, request, _ := strings.Cut(strings.TrimSpace(left), " ")
		last := &cases[len(cases)-1]
		last.lines = append(last.lines, caseLine{name, strings.TrimSpace(request), strings.TrimSpace(want)})
	}
	return cases
}
