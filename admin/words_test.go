package admin

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

func testWords(t *testing.T, role string, whitelist ...string) *Words {
	t.Helper()
	w, err := NewWords(WordsConfig{
		Whitelist: whitelist, Version: "0.1.0-dev", Built: time.Date(2026, 11, 2, 8, 4, 0, 0, time.UTC),
		Stats: func() Stats {
			return Stats{
				Received: 746, Sent: 806, Connections: 1, Outstanding: 2, Zxid: 0x2000001e9, Role: role, Nodes: 10,
				MinLatency: 100 * time.Microsecond, AvgLatency: 693750 * time.Nanosecond, MaxLatency: 12 * time.Millisecond,
				Proposals: Sizes{48, 36, 88},
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAnswer(t *testing.T) {
	const srvr = "Zookeeper version: 3.9.5-rollcall-0.1.0-dev, built on 11/02/2026 08:04 UTC\n" +
		"Latency min/avg/max: 0/0.6938/12\nReceived: 746\nSent: 806\nConnections: 1\nOutstanding: 2\n" +
		"Zxid: 0x2000001e9\nMode: follower\nNode count: 11\n"
	tests := []struct {
		name, role string
		whitelist  []string
		word, want string
		unknown    bool
	}{
		{name: "srvr by default", role: "follower", word: "srvr", want: srvr},
		{name: "srvr cannot be taken off", role: "follower", whitelist: []string{"ruok"}, word: "srvr", want: srvr},
		{name: "ruok by default", role: "follower", word: "ruok", want: "ruok is not executed because it is not in the whitelist.\n"},
		{name: "stat by default", role: "follower", word: "stat", want: "stat is not executed because it is not in the whitelist.\n"},
		{name: "ruok allowed, blanks trimmed", role: "follower", whitelist: []string{" mntr", " ruok "}, word: "ruok", want: "imok"},
		{name: "all allowed", role: "follower", whitelist: []string{"*"}, word: "ruok", want: "imok"},
		{name: "allowed and not served", role: "follower", whitelist: []string{"*"}, word: "wchc", want: "wchc is not served by this version.\n"},
		{name: "not serving", word: "srvr", want: "This ZooKeeper instance is not currently serving requests\n"},
		{name: "not serving, but alive", whitelist: []string{"*"}, word: "ruok", want: "imok"},
		{name: "unknown", role: "follower", whitelist: []string{"*"}, word: "abcd", unknown: true},
		{name: "a star is no word", role: "follower", whitelist: []string{"*"}, word: "*", unknown: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := testWords(t, tt.role, tt.whitelist...).Answer(tt.word)
			if string(got) != tt.want || ok == tt.unknown {
				t.Errorf("Answer(%q) = %q, %t, want %q, %t", tt.word, got, ok, tt.want, !tt.unknown)
			}
		})
	}
}

func TestLeaderShowsProposals(t *testing.T) {
	got, _ := testWords(t, "leader").Answer("srvr")
	const want = "Mode: leader\nNode count: 11\nProposal sizes last/min/max: 48/36/88\n"
	if len(got) < len(want) || string(got[len(got)-len(want):]) != want {
		t.Errorf("srvr = %q, want it to end %q", got, want)
	}
}

func TestDecimal(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0", time.Millisecond: "1.0", 1500 * time.Microsecond: "1.5", 12345678: "12.3457", 49: "0.0",
	} {
		if got := decimal(d); got != want {
			t.Errorf("decimal(%d ns) = %s, want %s", d, got, want)
		}
	}
}

func TestNewWordsRefusesVersion(t *testing.T) {
	for _, version := range []string{"", "1.0 beta", "1.0+dirty"} {
		if _, err := NewWords(WordsConfig{Version: version, Stats: func() Stats { return Stats{} }}); err == nil {
			t.Errorf("version %q is taken", version)
		}
	}
}

// go-zookeeper's parser is the strictest there is.
func TestGoClientReadsSrvr(t *testing.T) {
	for _, role := range []string{"leader", "follower", "standalone"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := testWords(t, role).Answer("srvr")
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).Peek(4)
			_, _ = c.Write(answer)
			_ = c.Close()
		}()
		stats, ok := zk.FLWSrvr([]string{l.Addr().String()}, 5*time.Second)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if !ok || stats[0].Error != nil {
			t.Fatalf("role %s: not parsed: %v", role, stats[0].Error)
		}
		if s := stats[0]; s.Mode.String() != role || s.NodeCount != 11 || s.Version != "3.9.5-rollcall-0.1.0-dev" || s.Received != 746 {
			t.Errorf("role %s: parsed as %+v", role, s)
		}
	}
}
