package cli

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// wordServer answers mntr and refuses ruok. It answers no other word.
func wordServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			word := make([]byte, 4)
			_, _ = io.ReadFull(conn, word)
			answer := map[string]string{
				"mntr": "zk_version\t3.9.5\nzk_\x1b[31m\t1\n", "ruok": "ruok is not executed because it is not in the whitelist.\n", "isro": "rw",
				"wchp": strings.Repeat("x", maxLine+10) + "\n",
			}[string(word)]
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

// A word's answer is printed as it is, apart from what a terminal would not simply show.
func TestWord(t *testing.T) {
	addr := wordServer(t)
	long := strings.Repeat("x", maxLine+10) + "\n"
	for _, tt := range []struct {
		hosts, word string
		status      Status
		out, err    string
	}{
		{"A", "mntr", OK, "zk_version\t3.9.5\nzk_\\x1b[31m\t1\n", ""},
		{"A", "isro", OK, "rw", ""},
		{"A", "wchp", OK, long, ""},
		{"A,A", "isro", OK, "A\nrw\nA\nrw", ""},
		{"A", "ruok", Denied, "", "word: A: ruok is not executed because it is not in the whitelist; add it to 4lw.commands.whitelist"},
		{"A", "kill", Unavailable, "", "ended without an answer (EOF)"},
		{"127.0.0.1:1,A", "isro", Unavailable, "127.0.0.1:1\n\nA\nrw", "127.0.0.1:1: dial tcp"},
	} {
		w, out, _ := testWorld()
		_, err := Execute(t.Context(), NewRoot(w, "1"), []string{"word", "--hosts", strings.ReplaceAll(tt.hosts, "A", addr), tt.word})
		if got := strings.ReplaceAll(out.String(), addr, "A"); got != tt.out || StatusOf(err) != tt.status || err != nil && !strings.Contains(strings.ReplaceAll(err.Error(), addr, "A"), tt.err) {
			t.Errorf("%s of %s: %q, %v (status %d)", tt.word, tt.hosts, got, err, StatusOf(err))
		}
	}
}

// As JSON or YAML, an answer is printed before the next server is asked: the second one here answers when some of the
// first answer is printed. What a server has not answered is missing, and without any answer nothing is printed.
func TestWordAnswersArePrintedAsTheyCome(t *testing.T) {
	first := wordServer(t)
	for _, format := range []string{"json", "yaml"} {
		printed := make(chan struct{})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if conn, err := l.Accept(); err == nil {
				<-printed
				_, _ = io.WriteString(conn, "the second answer")
				_ = conn.Close()
			}
		}()
		w, _, _ := testWorld()
		r, out := io.Pipe()
		w.Out = out
		over := make(chan error)
		go func() {
			_, err := Execute(t.Context(), NewRoot(w, "1"), []string{"word", "-o", format, "--hosts", first + ",127.0.0.1:1," + l.Addr().String(), "wchp"})
			_ = out.Close()
			over <- err
		}()
		begin := make([]byte, 1000)
		if _, err := io.ReadFull(r, begin); err != nil {
			t.Fatal(err)
		}
		close(printed)
		rest, _ := io.ReadAll(r)
		if err := <-over; StatusOf(err) != Unavailable || !strings.Contains(err.Error(), "word: 127.0.0.1:1: dial tcp") || strings.Count(err.Error(), "word:") != 1 {
			t.Errorf("%s: %v", format, err)
		}
		if text := string(begin) + string(rest); strings.Count(text, "wchp") != 2 || !strings.Contains(text, "the second answer") {
			t.Errorf("%s: %d bytes, which end in %.200q", format, len(text), text[max(0, len(text)-200):])
		}
		_ = l.Close()
	}
	w, out, _ := testWorld()
	_, err := Execute(t.Context(), NewRoot(w, "1"), []string{"word", "-o", "json", "--hosts", "127.0.0.1:1,127.0.0.1:1", "wchp"})
	if out.Len() > 0 || StatusOf(err) != Unavailable || strings.Count(err.Error(), "word: 127.0.0.1:1: dial tcp") != 2 {
		t.Errorf("without an answer: printed %q, %v", out, err)
	}
}

// What is printed of lengths of time and of sizes.
func TestUnits(t *testing.T) {
	var b bytes.Buffer
	for _, d := range []time.Duration{0, 999 * time.Microsecond, 1500 * time.Millisecond, 59999 * time.Millisecond, time.Minute, 3*time.Minute + 5*time.Second, time.Hour, 49 * time.Hour, -2 * time.Second} {
		b.WriteString(FormatDuration(d) + " ")
	}
	if got := b.String(); got != "0ms 0ms 1.5s 59s 1m 3m5s 1h 2d1h -2s " {
		t.Error(got)
	}
	b.Reset()
	for _, n := range []int64{0, 1023, 1024, 10239, 10240, 1048575, 1 << 20, 5 << 30, 1<<63 - 1} {
		b.WriteString(FormatSize(n) + ", ")
	}
	if got := b.String(); got != "0 B, 1023 B, 1.0 KiB, 10 KiB, 10 KiB, 1.0 MiB, 1.0 MiB, 5.0 GiB, 8.0 EiB, " {
		t.Error(got)
	}
}
