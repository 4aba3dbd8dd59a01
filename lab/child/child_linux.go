package child

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Attributes are those of a child: it has a process group of its own, and is killed when this process ends.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitStopped returns when all threads of a child have stopped.
func awaitStopped(pid int) error {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
