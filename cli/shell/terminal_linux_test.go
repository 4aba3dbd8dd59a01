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

// terminalUser sits before a terminal with a shell.
type terminalUser struct {
	t      *testing.T
	keys   *os.File // where the person types
	shown  outputBuffer
	status chan int
}

// openShell starts a shell on a terminal. The history is in dir.
func openShell(t *testing.T, dir string) *terminalUser {
	t.Helper()
	return openShellWithColumns(t, dir, 300)
}

// openShellWithColumns is sit with so many columns. 0: the terminal does not know.
func openShellWithColumns(t *testing.T, dir string, columns int) *terminalUser {
	t.Helper()
	keys, screen := openTerminal(t)
	p := &terminalUser{t: t, keys: keys, status: make(chan int, 1)}
	go func() { _, _ = io.Copy(&p.shown, keys) }() // ends when the test closes it
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() {
		status, err := Run(ctx, Config{
			Hosts: addr, In: screen, Out: screen, Err: screen, InTerminal: true, OutTerminal: true, ErrTerminal: true,
			Size: func() (int, int) { return columns, 40 }, EscapeText: visible, HistoryFile: filepath.Join(dir, "history"), Version: "the version",
		})
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		p.status <- status
	}()
	p.awaitText("type:None path:null\r\n[zk: " + addr + "(CONNECTED) 0] ")
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

func (p *terminalUser) typeText(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.keys, text); err != nil {
		p.t.Fatal(err)
	}
}

// awaitText waits until the terminal shows a text, and forgets all before its end.
func (p *terminalUser) awaitText(text string) {
	p.t.Helper()
	p.shown.awaitText(p.t, text)
	p.shown.mu.Lock()
	defer p.shown.mu.Unlock()
	p.shown.text.Next(strings.Index(p.shown.text.String(), text) + len(text))
}

func (p *terminalUser) awaitStatus(want int) {
	p.t.Helper()
	if status := <-p.status; status != want {
		p.t.Errorf("status %d, want %d", status, want)
	}
}

// A person edits lines, gets verbs and paths completed, reaches former lines with the arrows, sees
// events above the line, and leaves with Ctrl-D.
func TestTerminal(t *testing.T) {
	dir := t.TempDir()
	p := openShell(t, dir)
	p.typeText("create /terminal 'a\x1b")
	p.typeText("[31m\x01b'\r") // the escape sequence is a key that does nothing, and Ctrl-A goes to the start
	p.awaitText("Command not found: Command not found b'create")
	p.typeText("get /\u009b31mx\r") // nor does a control character of another kind
	p.awaitText("Node does not exist: /31mx\r\n")
	p.typeText("create /terminal \"a b\"\r")
	p.awaitText("Created /terminal\r\n")
	p.typeText("getAl\t/term\t\r") // both words are completed
	p.awaitText("getAllChildrenNumber /terminal\r\n0\r\n")
	p.typeText("\x1b[A\x1b[A") // two lines up
	p.awaitText("create /terminal \"a b\"")
	p.typeText("\x1b[B\r")
	p.awaitText("getAllChildrenNumber /terminal\r\n0\r\n")
	p.typeText("ge\t\t")
	p.awaitText("get  getAcl  getAllChildrenNumber  getEphemerals\r\n")
	p.typeText(" -w /terminal\r")
	p.awaitText("a b\r\n")
	p.awaitText("] ")

	p.typeText("half a line")
	p.awaitText("half a line")
	if got := runShell(t, Config{Command: []string{"set", "/terminal", "evil\x1b]0;\x07"}}); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	p.awaitText("WatchedEvent state:SyncConnected type:NodeDataChanged path:/terminal\r\n[zk: ")
	p.awaitText("half a line") // it is shown again below the event
	p.typeText("\x03")         // Ctrl-C clears it
	p.typeText("get /terminal\r")
	p.awaitText("evil?]0;?\r\n") // no byte of the data controls the terminal
	p.typeText("delete /terminal\r\x04")
	p.awaitStatus(0)

	p = openShell(t, dir)
	p.typeText("\x1b[A")
	p.awaitText("delete /terminal")
	p.typeText("\r")
	p.awaitText("Node does not exist: /terminal\r\n")
	p.typeText("quit\r")
	p.awaitStatus(1)
}

// Ctrl-C ends a waiting command, and the shell continues.
func TestTerminalInterrupt(t *testing.T) {
	p := openShell(t, t.TempDir())
	silent := newProxy(t)
	silent.mu.Lock() // it accepts, and does not go on
	defer silent.mu.Unlock()
	p.typeText("connect " + silent.Addr().String() + "\r")
	p.awaitText("(CONNECTING) 1] ")
	p.typeText("ls /\r")
	p.awaitText("ls /\r\n")
	p.typeText("\x03")
	p.awaitText("interrupted\r\n")
	p.typeText("version\r")
	p.awaitText("the version\r\n")
	p.typeText("\x04")
	p.awaitStatus(0)
}

// A line that is too long for the terminal is rejected.
func TestTerminalLongLine(t *testing.T) {
	p := openShellWithColumns(t, t.TempDir(), 0)
	for range maxLineRunes/100 + 1 { // a terminal's own buffer is smaller
		p.typeText(strings.Repeat("x", 100))
		p.awaitText(strings.Repeat("x", 50))
	}
	p.typeText("\r")
	p.awaitText("A line on a terminal has at most 4095 characters. Nothing was done.")
	p.typeText("\x04")
	p.awaitStatus(0)
}
