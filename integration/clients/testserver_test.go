package clients

import (
	"os"
	"os/exec"
	"testing"

	"rollcall/integration/needs"
)

// The tests of an application in Python, in python/test_application.py, pass on `rollcall test-server` with kazoo.
func TestPythonApplication(t *testing.T) {
	needs.Check(t, needs.Usual)
	needs.Check(t, needs.Kazoo)
	cmd := exec.CommandContext(t.Context(), python, "-B", "-m", "unittest", "-v", "test_application")
	cmd.Dir, cmd.Env = "python", append(os.Environ(), "ROLLCALL="+rollcall)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
