package trouble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"rollcall/lab/process"
	"rollcall/lab/target"
)

var (
	// rollcall is the binary under test, built once per run.
	rollcall string
	// root is the directory of all ensembles, and of their journals.
	root string
)

// healerRoot names the root to a process that is a healer.
const healerRoot = "TROUBLE_HEALER_ROOT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(healerRoot); dir != "" {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the other end is closed, or its process has ended
		if err := heal(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) (status int) {
	var err error
	if root, err = os.MkdirTemp("", "rollcall-trouble-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	end, err := func() (func() error, error) {
		if err := mountMemory(root); err != nil {
			return nil, err
		}
		return startHealer(root)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status = process.Main(m, &rollcall, func(dir string) (string, error) { return process.Build(dir) })
	if err := errors.Join(printTable(), end()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// inMemory reports whether the members' disks are kept in memory. The machine's disk is shared with other programs, and
// a sync of a second there is no fault of the row that runs. The table that compares programs is measured on that disk.
func inMemory() bool { return os.Geteuid() == 0 && os.Getenv("ROLLCALL_TABLE") == "" }

// memorySize limits the memory for the images of all ensembles that run beside each other. They are sparse.
const memorySize = "8g"

// mountMemory mounts a file system in memory on a directory, if the disks are kept there.
func mountMemory(dir string) error {
	if !inMemory() {
		return nil
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=700,size="+memorySize, "rollcall-trouble", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("mount a file system in memory on %s: %w: %s", dir, err, out)
	}
	return nil
}

// unmountMemory undoes mountMemory. It does not wait for open files.
func unmountMemory(dir string) error {
	if !inMemory() {
		return nil
	}
	if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("unmount %s: %w: %s", dir, err, out)
	}
	return nil
}

// startHealer starts a process that heals what this one leaves, however it ends: members on a frozen disk could not even be killed.
// end lets it heal, and waits for it.
func startHealer(dir string) (end func() error, err error) {
	log, err := os.Create(filepath.Join(dir, "healer"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has a descriptor of its own
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), healerRoot+"="+dir)
	cmd.Stdout, cmd.Stderr = log, log                    // go test would wait for its own
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what ends this process and its group does not end it
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() error {
		if err := errors.Join(pipe.Close(), cmd.Wait()); err != nil {
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	}, nil
}

// heal undoes what the journals below a directory still have, and removes the directory.
func heal(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	journals, err := filepath.Glob(filepath.Join(dir, "*", "state"))
	failed := []error{err}
	for _, path := range journals {
		j, err := target.OpenJournal(path)
		for errors.Is(err, target.ErrBusy) && sleep(ctx, 100*time.Millisecond) { // its process has not ended yet
			j, err = target.OpenJournal(path)
		}
		if err == nil {
			_, err = j.Heal(ctx)
			err = errors.Join(err, j.Close())
		}
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return errors.Join(unmountMemory(dir), os.RemoveAll(dir))
}
