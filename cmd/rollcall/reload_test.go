package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/member"
	"rollcall/zk/sasl"
)

// journal collects the lines of a log.
type journal chan string

func (j journal) Write(b []byte) (int, error) {
	_, line, _ := strings.Cut(strings.TrimSpace(string(b)), " ") // without the time
	j <- line
	return len(b), nil
}

// At SIGHUP the level of the log is read again, and the log says so, whatever its level. It names the
// other keys that have changed. A configuration that is wrong changes nothing.
func TestReload(t *testing.T) {
	const base = "dataDir=DIR\nclientPort=2181\n"
	dir, at := inDir(t, map[string]string{"zoo.cfg": base + "logLevel=warn\n"})
	file := filepath.Join(dir, "zoo.cfg")
	lines := make(journal, 10)
	var f memberFlags
	cfg, log, err := f.loadConfigAndLog(cli.IOStreams{Err: lines}, []string{file})
	if err != nil || log.Level() != slog.LevelWarn {
		t.Fatalf("%v, level %v", err, log.Level())
	}
	stop := onHangup(func() { f.reloadConfig(cli.IOStreams{}, []string{file}, cfg, log) })
	defer stop()
	for _, tt := range []struct {
		text  string
		level slog.Level
		want  string
	}{
		{base + "logLevel=debug\ntickTime=500\nserver.1=a:1:2\nnosuch=1\n", slog.LevelDebug, `level=INFO msg="configuration reloaded" member=1 logLevel=debug before=warn later="nosuch, server.1, tickTime"`},
		{base + "logLevel=loud\n", slog.LevelDebug, `level=ERROR msg="the configuration cannot be reloaded, so nothing has changed; correct it before the next start" err="DIR/zoo.cfg:3: logLevel=loud: must be debug, info, warn or error"`},
		{base, slog.LevelInfo, `level=INFO msg="configuration reloaded" member=1 logLevel=info before=debug`},
		{base + "logLevel=error\n", slog.LevelError, `level=INFO msg="configuration reloaded" member=1 logLevel=error before=info`},
	} {
		if err := os.WriteFile(file, []byte(at(tt.text)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-lines:
			if got != at(tt.want) || log.Level() != tt.level {
				t.Errorf("logged %s and has level %v, want %s", got, log.Level(), at(tt.want))
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing logged, want %s", tt.want)
		}
	}
	f.verbose = true
	f.reloadConfig(cli.IOStreams{}, []string{file}, cfg, log)
	if log.Level() != slog.LevelDebug {
		t.Errorf("with -v: level %v", log.Level())
	}
}

// reloadable loads the zoo.cfg in a directory, and returns what SIGHUP does, the member's configuration and the log.
func reloadable(t *testing.T, dir string) (reload func(), cfg member.Config, out *strings.Builder) {
	t.Helper()
	var f memberFlags
	out = new(strings.Builder)
	args := []string{filepath.Join(dir, "zoo.cfg")}
	loaded, log, err := f.loadConfigAndLog(cli.IOStreams{Err: out}, args)
	if err != nil {
		t.Fatal(err)
	}
	return func() { f.reloadConfig(cli.IOStreams{}, args, loaded, log) }, memberConfig(loaded, log), out
}

// SIGHUP puts the limits for tenants in zoo.cfg in force, in place of those that were set at run time.
func TestReloadLimits(t *testing.T) {
	const base = "dataDir=DIR\nclientPort=2181\n"
	dir, at := inDir(t, map[string]string{"zoo.cfg": base + "limit.a=address requests=5\n"})
	reload, cfg, out := reloadable(t, dir)
	limits := cfg.Limits.Tenants
	for _, tt := range []struct{ lines, want, line string }{
		{"limit.a=address requests=5\n", "[a: address requests=5]", "logLevel=info before=info\n"},
		{"limit.a=address requests=6\nlimit.b=subtree /b bytes=1M\n", "[a: address requests=6 b: subtree /b bytes=1048576]", "before=info limits=2\n"},
		{"limit.a=address requests=0\n", "[a: address requests=6 b: subtree /b bytes=1048576]", "nothing has changed"},
		{"", "[]", "before=info limits=0\n"},
	} {
		out.Reset()
		if err := os.WriteFile(at("DIR/zoo.cfg"), []byte(at(base+tt.lines)), 0o600); err != nil {
			t.Fatal(err)
		}
		reload()
		if got := limitTexts(limits); got != tt.want || !strings.Contains(out.String(), tt.line) {
			t.Errorf("%q: limits %s, and the log says %s, want %s and %s", tt.lines, got, out.String(), tt.want, tt.line)
		}
	}
}

// All keys without effect are in one line, in the order of the file. Each other warning has its own.
func TestWarnings(t *testing.T) {
	dir, at := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\nclientPort=2181\npreAllocSize=64\nnosuch=1\nautopurge.purgeInterval=1\nlogFormat=json\n"})
	var out strings.Builder
	var f memberFlags
	env := []string{"ZOO_CONF_DIR=" + dir}
	if _, _, err := f.loadConfigAndLog(cli.IOStreams{Err: &out, Env: env}, nil); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		`"level":"WARN","msg":"unknown key nosuch","where":"DIR/zoo.cfg:4"}`,
		`"level":"WARN","msg":"keys have no effect; docs/configuration.md says why","keys":"preAllocSize (DIR/zoo.cfg:3), autopurge.purgeInterval (DIR/zoo.cfg:5)"}`,
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines:\n%s", len(got), out.String())
	}
	for i := range want {
		if !strings.HasSuffix(got[i], at(want[i])) {
			t.Errorf("logged %s, want %s", got[i], at(want[i]))
		}
	}
}

// Lines carry a priority only if systemd's journal reads this very file.
func TestToJournal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "err"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	named := journalStream(stat)
	for _, tt := range []struct {
		w    cli.IOStreams
		want bool
	}{
		{cli.IOStreams{Err: f, Env: []string{"JOURNAL_STREAM=" + named}}, true},
		{cli.IOStreams{Err: f, Env: []string{"JOURNAL_STREAM=" + named + "0"}}, false},
		{cli.IOStreams{Err: f}, false},
		{cli.IOStreams{Err: new(strings.Builder), Env: []string{"JOURNAL_STREAM=" + named}}, false},
	} {
		if got := stderrIsJournal(tt.w); got != tt.want {
			t.Errorf("%v: %t", tt.w.Env, got)
		}
	}
}

func TestChangedKeys(t *testing.T) {
	keys := func(pairs ...string) (all []config.Key) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, config.Key{Name: pairs[i], Value: pairs[i+1]})
		}
		return all
	}
	then := keys("tickTime", "2000", "server.N", "", "syncLimit", "5", "odd", "1", "logLevel", "info")
	now := keys("tickTime", "3000", "server.1", "a:1:2", "syncLimit", "5", "logLevel", "debug")
	if got := strings.Join(diffKeys(then, now), " "); got != "odd server.1 tickTime" {
		t.Errorf("%s", got)
	}
}

// At SIGHUP the users of SASL are read again, and replace those that the member has. If the file cannot be
// used, they stay.
func TestReloadUsers(t *testing.T) {
	dir, at := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\nclientPort=2181\njava.security.auth.login.config=DIR/jaas\n", "jaas": jaasFile})
	reload, cfg, out := reloadable(t, dir)
	users := cfg.Login.Users
	for _, tt := range []struct {
		text string
		want *sasl.Users
		line string
	}{
		{jaasFile, sasl.NewUsers(map[string]string{"bob": "b"}), "logLevel=info before=info\n"},
		{strings.Replace(jaasFile, `"b"`, `"new" user_eve="hush"`, 1), sasl.NewUsers(map[string]string{"bob": "new", "eve": "hush"}), "logLevel=info before=info users=2\n"},
		{strings.Replace(jaasFile, `"b"`, `hush hush`, 1), sasl.NewUsers(map[string]string{"bob": "new", "eve": "hush"}), "nothing has changed"},
	} {
		out.Reset()
		if err := os.WriteFile(at("DIR/jaas"), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		reload()
		if !users.Equal(tt.want) || !strings.Contains(out.String(), tt.line) || strings.Contains(out.String(), "hush") {
			t.Errorf("%d users, and the log says %s, want %s", users.Count(), out.String(), tt.line)
		}
	}
}
