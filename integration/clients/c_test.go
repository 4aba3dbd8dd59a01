package clients

import (
	"os/exec"
	"path/filepath"
	"testing"

	"rollcall/integration/needs"
)

// ZooKeeper's C client passes the scenarios, through the program in c/client.c.
func TestCClient(t *testing.T) {
	needs.Check(t, needs.Usual)
	needs.Check(t, needs.CClient)
	program := filepath.Join(t.TempDir(), "c_client")
	build := exec.Command("gcc", "-Wall", "-Wextra", "-Werror", "-DTHREADED", "-o", program, "c/client.c", "-lzookeeper_mt", "-lpthread")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	l := startLone(t)
	l.play("c-client", exec.Command(program, l.addr))
}
