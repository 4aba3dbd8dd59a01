package clients

import (
	"os"
	"os/exec"
	"testing"
)

// The tests of an application in Python, in python/test_application.py, pass on `rollcall test-server` with kazoo.
func TestPythonApplication(t *testing.T) {
	requireClient(t, "/usr/lib/python3/dist-packages/kazoo/client.py", "python3-kazoo")
	cmd := exec.CommandContext(t.Context(), python, "-B", "-m", "unittest", "-v", "test_application")
	cmd.Dir, cmd.Env = "python", append(os.Environ(), "ROLLCALL="+rollcall)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
