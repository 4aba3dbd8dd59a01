package stopped

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/child"
	"rollcall/lab/process"
)

// pauses are times around the session timeout: shorter than the session lives, about as long, and longer.
var pauses = []time.Duration{1900, 2300, 2000, 2700, 1800, 2100}

// Loops that promise to continue work again after each pause of their process of about the session timeout.
func TestStoppedPrograms(t *testing.T) {
	rounds := needs.Amount(2, len(pauses), 4*len(pauses))
	e := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 3, Tick: 500 * time.Millisecond})
	p, printed := startPrograms(t, strings.Join(e.ClientAddresses(e.Members[0]), ","))
	for i := range rounds {
		awaitWork(t, printed, 0)
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		before := len(read(t, printed))
		time.Sleep(pauses[i%len(pauses)] * time.Millisecond) // the process is stopped; nothing waits for this
		if err := p.Continue(); err != nil {
			t.Fatal(err)
		}
		awaitWork(t, printed, before)
	}
}

// startPrograms starts a process with all programs, and returns the path of what they print.
func startPrograms(t *testing.T, servers string) (p *process.Process, printed string) {
	t.Helper()
	printed = filepath.Join(t.TempDir(), "printed")
	out, err := os.Create(printed)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }() // the process has a descriptor of its own
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), programServers+"="+servers)
	cmd.Stdout, cmd.Stderr = out, out
	const tail = 4 << 10
	return process.Start(t, "the programs", cmd, func() string { return child.Tail(printed, tail) }), printed
}

// awaitWork waits until each program has printed that it works, behind the first bytes of what is printed.
func awaitWork(t *testing.T, printed string, behind int) {
	t.Helper()
	for name := range programs {
		err := process.Until(t.Context(), name+" works", func() bool {
			text := read(t, printed)
			if end := strings.Index(text, endMark); end >= 0 {
				t.Fatal(text[strings.LastIndexByte(text[:end], '\n')+1:])
			}
			_, lines, _ := strings.Cut(("\n" + text)[behind:], "\n") // what was printed may end in the middle of a line
			return strings.Contains("\n"+lines, "\n"+name+"\n")
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
