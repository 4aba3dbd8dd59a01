package shell

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// person sits before a terminal with a shell.
type person struct {
	t      *testing.T
	keys   *os.File // where the person types
	shown  printed
	status chan int
}

// sit starts a shell on a terminal. The history is in dir.
func sit(t *testing.T, dir string) *person {
	t.Helper()
	return sitBefore(t, dir, 300)
}

// sitBefore is sit with so many columns. 0: the terminal does not know.
func sitBefore(t *testing.T, dir string, columns int) *person {
	t.Helper()
	keys, screen := openTerminal(t)
	p := &person{t: t, keys: keys, status: make(chan int, 1)}
	go func() { _, _ = io.Copy(&p.shown, keys) }() // ends when the test closes it
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() {
		status, err := Run(ctx, Config{
			Hosts: addr, In: screen, Out: screen, Err: screen, InTerminal: true, OutTerminal: true, ErrTerminal: true,
			Size: func() (int, int) { return columns, 40 }, Visible: visible, History: filepath.Join(dir, "history"), Version: "the version",
		})
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		p.status <- status
	}()
	p.sees("type:None path:null\r\n[zk: " + addr + "(CONNECTED) 0] ")
	return p
}

// openTerminal returns the two ends of a pseudo-terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

func (p *person) types(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.keys, text); err != nil {
		p.t.Fatal(err)
	}
}

// sees waits until the terminal shows a text, and forgets all before its end.
func (p *person) sees(text string) {
	p.t.Helper()
	p.shown.until(p.t, text)
	p.shown.mu.Lock()
	defer p.shown.mu.Unlock()
	p.shown.text.Next(strings.Index(p.shown.text.String(), text) + len(text))
}

func (p *person) leaves(want int) {
	p.t.Helper()
	if status := <-p.status; status != want {
		p.t.Errorf("status %d, want %d", status, want)
	}
}

// A person edits lines, gets verbs and paths completed, reaches former lines with the arrows, sees
// events above the line, and leaves with Ctrl-D.
func TestTerminal(t *testing.T) {
	dir := t.TempDir()
	p := sit(t, dir)
	p.types("create /terminal 'a\x1b")
	p.types("[31m\x01b'\r") // the escape sequence is a key that does nothing, and Ctrl-A goes to the start
	p.sees("Command not found: Command not found b'create")
	p.types("get /\u009b31mx\r") // nor does a control character of another kind
	p.sees("Node does not exist: /31mx\r\n")
	p.types("create /terminal \"a b\"\r")
	p.sees("Created /terminal\r\n")
	p.types("getAl\t/term\t\r") // both words are completed
	p.sees("getAllChildrenNumber /terminal\r\n0\r\n")
	p.types("\x1b[A\x1b[A") // two lines up
	p.sees("create /terminal \"a b\"")
	p.types("\x1b[B\r")
	p.sees("getAllChildrenNumber /terminal\r\n0\r\n")
	p.types("ge\t\t")
	p.sees("get  getAcl  getAllChildrenNumber  getEphemerals\r\n")
	p.types(" -w /terminal\r")
	p.sees("a b\r\n")
	p.sees("] ")

	p.types("half a line")
	p.sees("half a line")
	if got := runShell(t, Config{Command: []string{"set", "/terminal", "evil\x1b]0;\x07"}}); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	p.sees("WatchedEvent state:SyncConnected type:NodeDataChanged path:/terminal\r\n[zk: ")
	p.sees("half a line") // it is shown again below the event
	p.types("\x03")       // Ctrl-C clears it
	p.types("get /terminal\r")
	p.sees("evil?]0;?\r\n") // no byte of the data controls the terminal
	p.types("delete /terminal\r\x04")
	p.leaves(0)

	p = sit(t, dir)
	p.types("\x1b[A")
	p.sees("delete /terminal")
	p.types("\r")
	p.sees("Node does not exist: /terminal\r\n")
	p.types("quit\r")
	p.leaves(1)
}

// Ctrl-C ends a command that waits, and the shell goes on.
func TestTerminalInterrupt(t *testing.T) {
	p := sit(t, t.TempDir())
	silent := newGate(t)
	silent.mu.Lock() // it accepts, and does not go on
	defer silent.mu.Unlock()
	p.types("connect " + silent.Addr().String() + "\r")
	p.sees("(CONNECTING) 1] ")
	p.types("ls /\r")
	p.sees("ls /\r\n")
	p.types("\x03")
	p.sees("interrupted\r\n")
	p.types("version\r")
	p.sees("the version\r\n")
	p.types("\x04")
	p.leaves(0)
}

// A line that the terminal could not take as a whole is refused.
func TestTerminalLongLine(t *testing.T) {
	p := sitBefore(t, t.TempDir(), 0)
	for range lineRunes/100 + 1 { // a terminal's own buffer is smaller
		p.types(strings.Repeat("x", 100))
		p.sees(strings.Repeat("x", 50))
	}
	p.types("\r")
	p.sees("A line on a terminal has at most 4095 characters. Nothing was done.")
	p.types("\x04")
	p.leaves(0)
}
