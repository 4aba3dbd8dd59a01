package bench

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A case may be named with parameters of its own. The others come from the flags, or are the case's
// defaults.
func TestParseCase(t *testing.T) {
	base := Defaults()
	base.Window = 7
	for text, want := range map[string]string{
		"get":                          "get 8x7 100 B",
		"set:conns=64,window=1,size=0": "set 64x1 0 B",
		"set:member=leader,conns=1":    "set 1x7 100 B on leader",
		"get:rate=2.5":                 "get 8x7 100 B at 2.5/s",
		"mix:reads=70":                 "mix 70/30 8x7 100 B",
		"children:children=5":          "children of 5 8x7",
		"multi:ops=3":                  "multi of 3 8x7 100 B",
		"sessions":                     "sessions 32 at once",
		"sync":                         "sync 1x1",
		"sync:conns=4,member=follower": "sync 4x1 on follower",
		"hold:sessions=9":              "hold 9",
		"hold:member=follower":         "hold 1000 on follower",
		"churn":                        "churn 32 at once",
		"churn:rate=500,conns=9":       "churn 9 at once at 500/s",
		"fanout":                       "fanout 1000x1 on 1000 nodes at 200/s",
		"fanout:persistent=true,watches=3,rate=1": "fanout 1000x3 persistent on 1000 nodes at 1/s",
		"resume":                  "resume 1000 at once, 10 times",
		"resume:conns=5,storms=2": "resume 5 at once, 2 times",
		"ephemerals:each=3":       "ephemerals 16 at once, 3 each",
		"watches:watchers=4":      "watches 4",
		"firstreads":              "firstreads 1 at once",
		"expiry":                  "expiry 100",
		"expiry:member=leader":    "expiry 100 on leader",
		"storm":                   "storm 5000 that expire, 10 each, 10 times",
		"storm:storm=close,each=0,storms=3,conns=2": "storm 2 that close, 0 each, 3 times",
	} {
		p, err := ParseCase(text, base)
		if err != nil || p.String() != want {
			t.Errorf("%s: %q, %v", text, p.String(), err)
		}
	}
	p, err := ParseCase("create:duration=1m,warmup=0s,timeout=4s", base)
	if err != nil || p.Duration != time.Minute || p.Warmup != 0 || p.Timeout != 4*time.Second {
		t.Errorf("%+v, %v", p, err)
	}
}

// The error names the wrong value and the allowed ones.
func TestParseCaseErrors(t *testing.T) {
	base := Defaults()
	for text, want := range map[string]string{
		"":                              `unknown case ""; there are get, set`,
		"put":                           `unknown case "put"`,
		"get:":                          `"" cannot be set for one case`,
		"get:color=1":                   `"color" cannot be set for one case`,
		"get:hook=true":                 `"hook" cannot be set for one case`,
		"get:sessions=5":                "get does not take sessions",
		"sessions:hold=5":               `"hold" cannot be set for one case`,
		"sync:window=5":                 "sync does not take window",
		"expiry:duration=1s":            "expiry does not take duration",
		"resume:duration=1s":            "resume does not take duration",
		"resume:storms=0":               "0 storms; must be 1 to 10000",
		"storm:storm=rain":              `"rain" is no storm; must be expire, vanish, close or reconnect`,
		"ephemerals:each=0":             "ephemerals needs sessions with at least 1 node",
		"get:conns":                     `conns: "" is not a whole number`,
		"get:conns=0":                   "conns: 0 connections; must be 1 to 100000",
		"get:conns=-1":                  "must be",
		"get:conns=100001":              "must be",
		"get:conns=9999999999999999999": "is not a whole number",
		"get:window=10001":              "must be 1 to 10000",
		"get:rate=0":                    "0 requests per second; must be 0.01 to",
		"get:rate=NaN":                  "must be",
		"get:rate=x":                    `"x" is not a number`,
		"get:size=1000001":              "must be 0 to 1000000",
		"get:nodes=0":                   "must be 1",
		"mix:reads=101":                 "must be 0 to 100",
		"get:duration=5":                `"5" is not a duration such as`,
		"get:duration=1ms":              "1ms; must be 10ms to",
		"get:timeout=2h":                "must be",
		"get:member=voter":              `"voter" is no role; must be leader, follower or observer`,
		"multi:ops=1000,size=1000":      "longer than a request may be",
		"set:size=1000000":              "window 64: 64006400 bytes in flight",
		"multi:window=2000":             "bytes in flight",
		"failover":                      "failover needs --hook",
		"hold:sessions=1,sessions=-5":   "sessions: -5 sessions; must be 1 to 300000",
		"hold:sources=0":                "0 addresses; must be 1 to 65000",
		"fanout:nodes=2,watches=3":      "3 watches of a session on 2 nodes; must be at most one on each",
		"fanout:persistent=yes":         `"yes" must be true or false`,
		"cachestorm:duration=1s":        "cachestorm does not take duration",
		"cachestorm":                    "cachestorm needs --hook",
	} {
		if _, err := ParseCase(text, base); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Every case has a line of help. Every knob has a help text, a name of its own, and at least one
// case, and all of its cases exist.
func TestKnobs(t *testing.T) {
	names := map[string]bool{}
	for _, k := range ParamFlags() {
		if k.Usage == "" || names[k.Name] || len(k.cases) == 0 {
			t.Errorf("%+v", k)
		}
		names[k.Name] = true
		for _, c := range k.cases {
			if _, ok := findCase(c); !ok {
				t.Errorf("%s is for the unknown case %q", k.Name, c)
			}
		}
	}
	if len(Cases()) != len(allCases) {
		t.Errorf("%d cases, %d names", len(Cases()), len(allCases))
	}
	for _, c := range Cases() {
		if !slices.Contains(allCases, c[0]) || c[1] == "" {
			t.Errorf("%q", c)
		}
	}
}

// If a case needs more connections than this process may have open files, it is rejected before anything is sent, and
// the error reports that.
func TestFilesLimit(t *testing.T) {
	p, err := ParseCase("get:conns=100000", Defaults())
	if err != nil {
		t.Fatal(err)
	}
	p.Conns = 1 << 30
	_, err = Run(t.Context(), Config{Target: Target{Servers: []string{"nowhere:1"}}, Params: p})
	if err == nil || !strings.Contains(err.Error(), "files open") {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]int{
		"get:conns=3": 3, "hold:sessions=50": 0, "sessions:conns=3": 3, "watches:watchers=6": 6, "expiry:silent=7": 7, "ephemerals:conns=2": 2, "resume:conns=9": 9, "firstreads:conns=2": 6, "storm:conns=5": 8, "churn:conns=4": 4, "fanout:watchers=50": 4,
	} {
		if p, err = ParseCase(text, Defaults()); err != nil || p.connectionCount(3) != want {
			t.Errorf("%s: %d connections, %v", text, p.connectionCount(3), err)
		}
	}
	base := Defaults()
	base.Hook = "true"
	if p, err = ParseCase("failover:conns=2", base); err != nil || p.connectionCount(3) != 12 {
		t.Errorf("failover: %d connections, %v", p.connectionCount(3), err)
	}
}
