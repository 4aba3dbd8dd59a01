package clients

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/bench"
)

// rollcall bench measures over TLS. It also uses TLS in the processes that it starts for more sessions than one may
// hold, and to query a member's role. If a member rejects it, it prints the reason.
func TestBenchTLS(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	s, ctx := startSecured(t, "own.pem", "ca.pem"), limited(t)
	run := func(ca, cert string, args ...string) (string, error) {
		// A process may have 16 connections besides the 64 files that bench keeps for other things.
		const limited = `ulimit -n 80 && exec "$0" bench "$@"`
		args = append([]string{"-c", limited, rollcall, "--hosts=" + s.addr, "--tls-ca=" + s.file(ca), "--tls-cert=" + s.file(cert), "--duration=500ms", "--warmup=0s", "-o=json"}, args...)
		var said strings.Builder
		cmd := exec.CommandContext(ctx, "sh", args...)
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said.String())
		}
		return string(out), err
	}
	out, err := run("ca.pem", "app.pem", "get:conns=3", "hold:sessions=20,timeout=3s,duration=3s")
	if err != nil {
		t.Fatal(err)
	}
	var results []bench.Result
	if err := json.Unmarshal([]byte(out), &results); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, r := range results {
		if r.Ops == 0 || len(r.Errors) > 0 {
			t.Errorf("%+v", r)
		}
	}
	if len(results) != 2 {
		t.Errorf("%d results, want 2: %s", len(results), out)
	}
	for _, tt := range []struct{ ca, cert, load, want string }{
		{"ca.pem", "app.pem", "get:member=leader", "no leader: " + s.addr + " is standalone"},
		{"other-ca.pem", "app.pem", "get", "certificate signed by unknown authority"},
		{"ca.pem", "other.pem", "get:member=leader", "remote error: tls: unknown certificate authority; --tls-cert must name a certificate that the member accepts"},
	} {
		if out, err := run(tt.ca, tt.cert, tt.load); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %s, %s: %s, %v, want %s", tt.ca, tt.cert, tt.load, out, err, tt.want)
		}
	}
	fmt.Println("client scenario: bench-tls ok")
}
