package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// Members are chosen by the role that they report.
func TestMembers(t *testing.T) {
	says := map[string]string{
		"a:1": "Rollcall version: 1\nMode: follower\nNode count: 5\n",
		"b:1": "Zookeeper version: 3.8\nLatency min/avg/max: 0/0.0/0\nMode: leader\n",
		"c:1": "Mode: follower\n",
		"f:1": "Mode: observer\n",
		"d:1": "This ZooKeeper instance is not currently serving requests\n",
	}
	for _, c := range []struct {
		member string
		among  []string
		want   string
	}{
		{"", []string{"a:1", "d:1", "e:1"}, "a:1 d:1 e:1"},
		{"leader", []string{"a:1", "b:1", "c:1"}, "b:1"},
		{"follower", []string{"a:1", "b:1", "c:1"}, "a:1 c:1"},
		{"observer", []string{"a:1", "b:1", "f:1"}, "f:1"},
		{"observer", []string{"a:1", "b:1"}, "no observer: a:1 is follower, b:1 is leader"},
		{"leader", []string{"a:1", "c:1"}, "no leader: a:1 is follower, c:1 is follower"},
		{"leader", []string{"b:1", "d:1"}, "role of d:1: unexpected reply to srvr: \"This ZooKeeper"},
		{"leader", []string{"e:1"}, "role of e:1: refused"},
	} {
		r := &caseRun{ctx: t.Context(), params: Params{MemberRole: c.member}, target: Target{Servers: c.among}}
		r.target.Dial = func(_ context.Context, addr string) (net.Conn, error) {
			text, ok := says[addr]
			if !ok {
				return nil, errors.New("refused")
			}
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				word := make([]byte, 4)
				if _, err := io.ReadFull(theirs, word); err == nil && string(word) == "srvr" {
					_, _ = io.WriteString(theirs, text)
				}
			}()
			return ours, nil
		}
		got, err := r.findServersWithRole()
		if err != nil && !strings.HasPrefix(err.Error(), c.want) || err == nil && !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%q of %v: %v, %v", c.member, c.among, got, err)
		}
	}
}
