package secretfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// A file of this user that others may read is rejected where it can be changed, and not where it is mounted read-only, as
// Kubernetes and Docker mount secrets. The test runs in a mount namespace of its own.
func TestSecretOnReadOnlyMount(t *testing.T) {
	const marker = "ROLLCALL_OWN_MOUNTS"
	if os.Getenv(marker) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), marker+"="+t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("in a mount namespace of its own: %v\n%s", err, out)
		}
		return
	}
	dir := os.Getenv(marker)
	if err := syscall.Mount("secrets", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "token")
	if err := os.WriteFile(path, []byte("hush"), 0o644); err != nil {
		t.Fatal(err)
	}
	rejected := func() bool {
		f, err := ReadTrustedFile(path, 100)
		if err != nil || f.ExposedWarning() == "" {
			t.Fatalf("%+v, %v", f, err)
		}
		return f.RejectExposed() != nil
	}
	if !rejected() {
		t.Error("the file is not rejected where it can be changed")
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if rejected() {
		t.Error("the file is rejected on a read-only mount")
	}
}
