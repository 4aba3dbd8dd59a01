package serverlist

import (
	"strings"
	"testing"
)

// A server that comes in or changes gets no port of its host at which another one takes clients, nor takes clients at another one's port.
func TestClientPortTaken(t *testing.T) {
	list, err := ParseLines([]string{"server.1=a:2888:3888;2181", "server.2=b:2888:3888;127.0.0.1:2181", "server.3=c:2888:3888;10.0.0.3:2181", "server.7=d:1:2;3", "server.8=d:4:5;3"})
	if err != nil {
		t.Fatal(err)
	}
	for joining, want := range map[string]string{
		"server.4=a:2889:3889;2181":           "server.4 would have the address a:2181 (clientPort), which server.1 has (clientPort)",
		"server.4=A:2889:3889;127.0.0.1:2181": "server.4 would have the address a:2181 (clientPort), which server.1 has (clientPort)",
		"server.4=b:2889:3889;2181":           "which server.2 has (clientPort)",
		"server.4=10.0.0.3:2889:3889;2181":    "server.4 would have the address 10.0.0.3:2181 (clientPort), which server.3 has (clientPort)",
		"server.4=a:2889:3889;2888":           "server.4 would have the address a:2888 (clientPort), which server.1 has (quorumPort)",
		"server.4=a:2181:3889;2182":           "server.4 would have the address a:2181 (quorumPort), which server.1 has (clientPort)",
		"server.4=a:2889:2181;2182":           "server.4 would have the address a:2181 (electionPort), which server.1 has (clientPort)",
		"server.2=a:2889:3889;2181":           "server.2 would have the address a:2181 (clientPort), which server.1 has (clientPort)",
		"server.4=a:2889:3889;2182":           "",
		"server.4=e:2888:3888;2181":           "",
		"server.1=a:2888:3888:observer;2181":  "",
	} {
		next, err := list.Apply(Change{Joining: joining})
		if err != nil {
			t.Fatalf("%s: %v", joining, err)
		}
		if err := list.CheckClientPortConflicts(next); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", joining, err, want)
		}
	}
}
