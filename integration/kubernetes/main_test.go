package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"rollcall/integration/needs"
)

// inside is the variable that the test has in the namespaces that it made for itself.
const inside = "ROLLCALL_KUBERNETES_INSIDE"

// TestMain runs the tests in namespaces of their own for the network, for mounts and for processes. The end of the first process ends
// all others, and all directories are in one that is removed then. Outside, it builds the control plane, because the namespaces have no
// network.
func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	needs.Main(needs.Nightly, needs.Root, needs.OwnNetwork)
	if err := runInside(); err != nil {
		fmt.Println(err)
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			os.Exit(exit.ExitCode())
		}
		os.Exit(1)
	}
}

// runInside builds what the tests run, and runs them. A signal ends them, and their directories are removed then, too.
func runInside() error {
	bin, err := binaries()
	if err != nil {
		return err
	}
	if err := buildImages(bin); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "rollcall-cluster-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	script := "set -e; mount -t tmpfs none /run; ip link set lo up; ip link add pods type bridge; ip address add " + gateway +
		"/16 dev pods; ip link set pods up; exec \"$@\""
	args := []string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh"}
	cmd := exec.CommandContext(ctx, "unshare", append(args, os.Args...)...)
	cmd.Env = append(os.Environ(), inside+"="+bin, "TMPDIR="+temporary)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}
