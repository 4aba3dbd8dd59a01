package cli

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/operator/logs/logtest"
)

// A command that takes longer than two seconds shows its progress on a terminal, and removes the line when it is done.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, out, _ := testWorld()
		errs := new(logtest.Buffer)
		w.Err, w.ErrTerminal = errs, true
		w = WithProgress(w)
		p := NewProgress(w, "nodes", 200)
		p.Add(50)
		time.Sleep(progressAfter - time.Millisecond)
		synctest.Wait()
		if text := errs.Take(); text != "" {
			t.Errorf("too early: %q", text)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if text, want := errs.Take(), clearLine+"   2 s  [=======                       ] 50 of 200 nodes"; text != want {
			t.Errorf("%q, want %q", text, want)
		}
		p.SetTotal(0)
		time.Sleep(progressEvery)
		synctest.Wait()
		if text, want := errs.Take(), clearLine+"   2 s  50 nodes"; text != want {
			t.Errorf("%q, want %q", text, want)
		}
		p.Done()
		p.Done()
		if text := errs.Take(); text != clearLine || out.Len() > 0 {
			t.Errorf("at the end %q", text)
		}
	})
}

// Nothing is drawn for a command that is quick, nor without a terminal.
func TestNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, terminal := range []bool{false, true} {
			w, _, _ := testWorld()
			errs := new(logtest.Buffer)
			w.Err, w.ErrTerminal = errs, terminal
			w = WithProgress(w)
			p := NewProgress(w, "nodes", 0)
			if !terminal {
				time.Sleep(time.Minute)
			}
			p.Done()
			if text := errs.Take(); text != "" {
				t.Errorf("terminal %t: %q", terminal, text)
			}
		}
	})
}

// The progress of a backup counts each MiB that arrives, in whatever parts.
func TestBackupCountsItsProgress(t *testing.T) {
	for _, part := range []int{1 << 10, 700 << 10, 1 << 20, 3 << 20} {
		p := &Progress{}
		c := &countingWriter{saving: &backupSave{}, out: io.Discard, progress: p}
		for n := part; n <= 21<<20; n += part {
			if _, err := c.Write(make([]byte, part)); err != nil {
				t.Fatal(err)
			}
			if got, want := p.done.Load(), int64(n>>20); got != want {
				t.Fatalf("in parts of %d bytes: %d MiB after %d bytes, want %d", part, got, n, want)
			}
		}
	}
}

// More than all is a full bar.
func TestProgressLine(t *testing.T) {
	p := &Progress{what: "nodes"}
	p.SetTotal(10)
	p.Add(11)
	if got := p.lineText(); got != "["+strings.Repeat("=", barColumns)+"] 11 of 10 nodes" {
		t.Errorf("%q", got)
	}
}

// A line that is longer than the terminal would scroll it each time it is drawn. It is cut so that the last column
// stays free, with 80 columns if the terminal does not say how many it has.
func TestProgressFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		narrow := func() int { return 24 }
		for _, tt := range []struct {
			columns func() int
			what    string
			want    string
		}{
			{narrow, "zoo1.example.com:2181 and 2 others", "   2 s  waiting for zoo"},
			{narrow, "日本:2181", "   2 s  waiting for 日"},
			{narrow, "a\nb", `   2 s  waiting for a\x`},
			{func() int { return 1 }, "zoo1:2181", ""},
			{nil, strings.Repeat("x", 80), "   2 s  waiting for " + strings.Repeat("x", 59)},
		} {
			w, _, _ := testWorld()
			screen := new(logtest.Buffer)
			w.Err, w.ErrTerminal, w.ErrColumns = screen, true, tt.columns
			p := startWaiting(WithProgress(w), tt.what)
			time.Sleep(progressAfter)
			synctest.Wait()
			if got := screen.Take(); got != clearLine+tt.want {
				t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
			}
			p.Done()
			time.Sleep(maxLull)
		}
	})
}

// The line does not name all of many servers.
func TestOneOf(t *testing.T) {
	for want, servers := range map[string][]string{"a:1": {"a:1"}, "a:1 and 1 other": {"a:1", "b:1"}, "a:1 and 2 others": {"a:1", "b:1", "c:1"}} {
		if got := summarizeServers(servers); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What a command prints goes around the line, which then waits for another two seconds. A part of a line that the
// command has printed stays. A pause begins anew, and work that counts says more than one that waits.
func TestProgressGoesAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := testWorld()
		screen := new(logtest.Buffer)
		w.Out, w.Err, w.OutTerminal, w.ErrTerminal = screen, screen, true, true
		w = WithProgress(w)
		after := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := screen.Take(); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		counts, waits := NewProgress(w, "nodes", 0), startWaiting(w, "zoo1:2181")
		after(progressAfter, clearLine+"   2 s  nodes")
		_, _ = io.WriteString(w.Out, "a row\n")
		_, _ = io.WriteString(w.Out, "and another\n") // the line is gone, and nothing else may be cleared
		after(progressAfter-time.Millisecond, clearLine+"a row\nand another\n")
		counts.Done()
		after(time.Millisecond, clearLine+"   4 s  waiting for zoo1:2181")
		_, _ = io.WriteString(w.Err, "Type yes: ")
		after(time.Minute, clearLine+"Type yes: ")
		w.progressLine.userEndedLine()
		after(progressEvery, clearLine+"  64 s  waiting for zoo1:2181")
		waits.Done()
		after(maxLull, clearLine)
		waits = startWaiting(w, "zoo2:2181") // at once: it is the same work
		after(0, clearLine+"  64 s  waiting for zoo2:2181")
		waits.Done()
		after(maxLull+time.Millisecond, clearLine)
		defer startWaiting(w, "zoo3:2181").Done()
		after(progressAfter-time.Millisecond, "")
	})
}

// shownLine is a terminal that closes shown when the line for progress appears.
type shownLine struct {
	logtest.Buffer
	once  sync.Once
	shown chan struct{}
}

func (s *shownLine) Write(text []byte) (int, error) {
	if strings.Contains(string(text), " s  ") {
		s.once.Do(func() { close(s.shown) })
	}
	return s.Buffer.Write(text)
}

// listenSilently passes a connection on to the shared member. Everything after the first message, which opens a session,
// waits until shown is closed.
func listenSilently(t *testing.T, shown chan struct{}) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", memberAddr)
			if err != nil {
				in.Close()
				return
			}
			go func() { _, _ = io.Copy(in, out) }()
			go func() {
				defer out.Close()
				first := make([]byte, 4<<10)
				if n, err := in.Read(first); err == nil {
					_, _ = out.Write(first[:n])
				}
				<-shown
				_, _ = io.Copy(out, in)
			}()
		}
	}()
	return l.Addr().String()
}

// Each command whose members take long says on a terminal what it waits for, and nothing of it is left at the end.
func TestProgressOfCommands(t *testing.T) {
	_, s := nodeWorld(t)
	if _, _, err := s.Client.Create(t.Context(), s.FullPath("/a"), nil, client.Persistent); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Client.Create(t.Context(), s.FullPath("/b"), nil, client.Persistent); err != nil {
		t.Fatal(err)
	}
	f := newFakeMember(t)
	var all sync.WaitGroup
	for _, command := range []string{
		"get /a", "set /a x", "create /c", "rm /b", "stat /a", "acl /a", "sync", "ls", "status", "log-level", "drain", "why", "session show 0x1000012f99a0001", "support-bundle", "word srvr",
	} {
		screen := &shownLine{shown: make(chan struct{})}
		slow := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-screen.shown
			f.Config.Handler.ServeHTTP(w, r)
		}))
		t.Cleanup(slow.Close)
		w, out, _ := testWorld("ROLLCALL_ADMIN="+slow.URL, "ROLLCALL_HOSTS="+listenSilently(t, screen.shown)+s.Root)
		w.Err, w.ErrTerminal = screen, true
		args := strings.Fields(command)
		switch args[0] {
		case "support-bundle":
			args = append(args, "--file", filepath.Join(t.TempDir(), "b.tar.gz"))
		case "word":
			w.Env = []string{"ROLLCALL_HOSTS=" + silentUntil(t, screen.shown)}
		case "get":
			w.Env[1] = "ROLLCALL_HOSTS=" + listenSilently(t, screen.shown) + ",127.0.0.1:1" + s.Root
		}
		all.Go(func() {
			if err := runArgs(t.Context(), w, args...); err != nil && args[0] != "drain" { // the fake does not take it
				t.Errorf("%s: %v", command, err)
			}
			text := screen.Take()
			line := strings.LastIndex(text, " s  ")
			if line < 0 || !strings.Contains(text[line:], clearLine) || strings.Contains(out.String(), clearLine) {
				t.Errorf("%s: on the terminal %q, printed %q", command, text, out)
			}
			if args[0] == "get" && !strings.Contains(text, " and 1 other") {
				t.Errorf("%s: on the terminal %q", command, text)
			}
		})
	}
	all.Wait()
}

// silentUntil takes one connection, and answers on it when shown is closed.
func silentUntil(t *testing.T, shown chan struct{}) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.ReadFull(conn, make([]byte, 4)) // what is not read resets the connection
		<-shown
		_, _ = io.WriteString(conn, "Zookeeper version: 1, which answers\n")
	}()
	return l.Addr().String()
}
