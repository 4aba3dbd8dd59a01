package shell

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/integration/alone"
	"rollcall/member"
)

// addr is the clients' address of the member that all tests share. Each test works below a node of its own.
var addr string

func TestMain(m *testing.M) {
	alone.Run(m, func(_ *member.Member, at string) { addr = at })
}

// outputBuffer collects a shell's output.
type outputBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *outputBuffer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *outputBuffer) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// awaitText waits until what is printed holds want.
func (p *outputBuffer) awaitText(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !strings.Contains(p.String(), want); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not printed: %q; but\n%s", want, p)
		}
	}
}

// shellResult is the result of a shell.
type shellResult struct {
	status   int
	out, err string
}

// runLines runs a shell that reads lines, and leaves out what it prints before them.
func runLines(t *testing.T, cfg Config, lines ...string) shellResult {
	t.Helper()
	cfg.In = strings.NewReader(strings.Join(lines, "\n"))
	return runShell(t, cfg)
}

func runShell(t *testing.T, cfg Config) shellResult {
	t.Helper()
	if cfg.Hosts == "" {
		cfg.Hosts = addr
	}
	var out, errs outputBuffer
	cfg.Out, cfg.Err, cfg.EscapeText = &out, &errs, visible
	if cfg.In == nil {
		cfg.In = strings.NewReader("")
	}
	status, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &errs)
	}
	return shellResult{status, withoutGreeting(out.String()), errs.String()}
}

// withoutGreeting returns the output without the lines that each shell prints first.
func withoutGreeting(out string) string {
	_, out, _ = strings.Cut(out, "\n")
	out = strings.Replace(out, "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n", "", 1) // at any time
	return strings.TrimPrefix(out, "Welcome to Rollcall!\n")
}

// visible stands for what the command line passes.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return '?'
		}
		return r
	}, text)
}
