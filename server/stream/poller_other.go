//go:build !linux

package stream

import (
	"errors"
	"os"
	"syscall"
)

// Systems other than Linux have no loops: every stream has a reader.

const errWouldBlock = syscall.EAGAIN

type poller struct{}

func newPoller() (*poller, error) { return nil, errors.ErrUnsupported }

func (*poller) add(int) error           { return errors.ErrUnsupported }
func (*poller) remove(int)              {}
func (*poller) waitEvents() (int, bool) { return 0, false }
func (*poller) socketAt(int) int        { return -1 }
func (*poller) close()                  {}

func readSocket(fd int, b []byte) (int, error)  { return syscall.Read(fd, b) }
func writeSocket(fd int, b []byte) (int, error) { return syscall.Write(fd, b) }
func writeLast(fd int, b []byte) (int, error)   { return syscall.Write(fd, b) }

func dupSocket(syscall.RawConn) (int, error) { return -1, errors.ErrUnsupported }
func closeSocket(int)                        {}
func hangUpSocket(int)                       {}
func shutdownWrite(int)                      {}

type fileSocket struct{ *os.File }

func newFileSocket(int) fileSocket { return fileSocket{} }
