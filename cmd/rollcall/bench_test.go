package main

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
)

// If something is wrong with a command line, the error names it, and nothing is sent.
func TestBenchFlags(t *testing.T) {
	const at = "-hosts=127.0.0.1:1"
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0)) // bench changes it
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "bench: name a case; rollcall bench -h lists them"},
		{[]string{"get"}, "bench: --hosts host:port,... names the servers"},
		{[]string{"-servers=localhost", "get"}, `bench: --hosts: "localhost" has no port; must be host:port`},
		{[]string{"--servers=a:1,:2", "get"}, `bench: --hosts: ":2" has no host; must be host:port`},
		{[]string{"-hosts=a:70000", "get"}, `bench: --hosts: "a:70000": a port is a number from 1 to 65535`},
		{[]string{"--hosts=a:1/app", "get"}, `bench: --hosts: the path "/app": loads begin at the root of the tree`},
		{[]string{at, "put"}, `bench: unknown case "put"`},
		{[]string{at, "-conns=0", "get"}, `bench: --conns "0": 0 connections; must be 1 to 100000`},
		{[]string{at, "-sessions=5", "get", "set"}, "-sessions: none of the cases takes it"},
		{[]string{at, "get", "-conns=0"}, `bench: --conns "0": 0 connections; must be 1 to 100000`}, // a flag may follow the cases
		{[]string{at, "-pids=1,x", "get"}, `"x" is not a process id`},
		{[]string{at, "-pids=99999999", "get"}, "no process 99999999"},
		{[]string{at, "-o=xml", "get"}, `-o "xml" must be table or json`},
		{[]string{at, "-cpus=-1", "get"}, "-cpus -1 must be 1 to 64"},
		{[]string{at, "failover"}, "failover needs --hook"},
		{[]string{at, "-a=b:1", "get"}, "unknown shorthand flag: 'a' in -a=b:1; rollcall bench -h lists its flags"},
		{[]string{at, "-tls-cert=x", "get"}, "bench: --tls-cert and --tls-key need --tls-ca"},
		{[]string{at, "-tls-ca=no-such-file", "get"}, "bench: --tls-ca: open no-such-file"},
		{[]string{"compare", "-a=a:1", "-b=b:1", "-b-tls-ca=no-such-file", "get"}, "bench compare: --b-tls-ca: open no-such-file"},
		{[]string{"keep-sessions", "-tls-ca=no-such-file"}, "--tls-ca: open no-such-file"},
		{[]string{"compare", "get"}, "bench compare: --a host:port,... names the servers"},
		{[]string{"compare", "-a=a:1", "get"}, "-b host:port,... names the servers"},
		{[]string{"compare", "-a=a:1", "-b=b:1", "-o=xml", "get"}, "must be table, json or markdown"},
		{[]string{"compare", "-a=a:1", "-b=b:1", "-rounds=2", "get"}, "2 rounds; must be 3 to 100"},
		{[]string{"compare", "-a=a:1", "-b=b:1", "-b-start=true", "get"}, "B needs both a start and a stop command"},
	} {
		var stdout, stderr bytes.Buffer
		err := runCommand(t.Context(), append([]string{"bench"}, c.args...), nil, &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), c.want) || stdout.Len() > 0 {
			t.Errorf("%q: %v, %s", c.args, err, stdout.String())
		}
	}
}
