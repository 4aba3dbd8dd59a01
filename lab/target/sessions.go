package target

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
)

var (
	sessionsLine    = regexp.MustCompile(`(?m)^zk_global_sessions\t(\d+)`)
	connectionsLine = regexp.MustCompile(`(?m)^Connections: (\d+)\r?$`)
)

// Sessions returns the number of sessions of the ensemble. mntr counts them. Where the members do not answer mntr,
// which ZooKeeper does not by default, it is the number of connections that srvr counts, without the one of this query;
// sessions without a connection are then missing. It blocks for a few seconds at most.
func Sessions(ctx context.Context, members []Member) (sessions int, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	connections := 0
	for _, m := range members {
		text, err := Word(ctx, m.Clients, "mntr")
		if n, ok := matchNumber(sessionsLine, text); err == nil && ok {
			return n, nil // of the whole ensemble
		}
		text, err = Word(ctx, m.Clients, "srvr")
		n, ok := matchNumber(connectionsLine, text)
		if err != nil || !ok {
			return 0, fmt.Errorf("member %s (%s) does not say how many sessions there are, in answer to mntr or srvr", m.Name, m.Clients)
		}
		connections += n - 1
	}
	return connections, nil
}

// matchNumber returns the number that a line of an answer has.
func matchNumber(line *regexp.Regexp, text string) (n int, ok bool) {
	match := line.FindStringSubmatch(text)
	if match == nil {
		return 0, false
	}
	n, err := strconv.Atoi(match[1])
	return n, err == nil
}
