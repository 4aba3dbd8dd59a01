package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"rollcall/cli"
	"rollcall/client"
	"rollcall/operator/logs/logtest"
)

// makeMembers writes the zoo.cfg of each of three voters and an observer into dir, with ports from base on.
// The server lines have roles and the addresses for clients.
func makeMembers(t *testing.T, dir string, base int) (files, lines []string) {
	t.Helper()
	for id := 1; id <= 4; id++ {
		role := "participant"
		if id == 4 {
			role = "observer"
		}
		port := base + 3*id
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d:%s;127.0.0.1:%d", id, port, port+1, role, port+2))
	}
	for id := 1; id <= 4; id++ {
		data, file := filepath.Join(dir, fmt.Sprintf("data%d", id)), filepath.Join(dir, fmt.Sprintf("zoo%d.cfg", id))
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("dataDir=%s\ntickTime=500\ninitLimit=10\nsyncLimit=5\nadmin.enableServer=false\n%s\n", data, strings.Join(lines, "\n"))
		for name, text := range map[string]string{file: text, filepath.Join(data, "myid"): fmt.Sprint(id)} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		files = append(files, file)
	}
	return files, lines
}

// The directories of voters and of an observer can be filled by an import and with a backup. The ensemble has
// the roles and the addresses of its server lines, and the observer serves. If it alone is left, it is
// recovered as the only voter of a list.
func TestFilledEnsembleHasRoles(t *testing.T) {
	source := zooKeepers(t)
	for _, tt := range []struct {
		name, node string
		fill       func(config string) []string // command line
	}{
		{"restore", "/app", func(config string) []string {
			return []string{"backup", "restore", writeBackup(t, t.TempDir()), config}
		}},
		{"import", "/a", func(config string) []string { return []string{"import", "--few", "--config", config, source} }},
	} {
		var configs, lines []string
		var log logtest.Buffer
		dir := t.TempDir // outlives the members
		t.Run(tt.name, func(t *testing.T) {
			for tries := 0; ; tries++ {
				if tries == 20 {
					t.Fatal("no free ports")
				}
				configs, lines = makeMembers(t, dir(), 10_000+rand.IntN(18_000))
				args := tt.fill(configs[0]) // the others start empty, and copy the state
				if out, err := command(t, args...); err != nil {
					t.Fatalf("%q: %v\n%s", args, err, out)
				}
				log.Take()
				if serveAll(t, configs, &log) {
					break
				}
			}
			wantRoles(t, lines, tt.node)
			wantCaughtUp(t, &log, len(configs))
		})
		if !t.Failed() {
			recoverObserver(t, configs[3], lines[3])
		}
	}
}

// wantCaughtUp waits until so many members run raft and take part in the ensemble: only then can one be recovered.
func wantCaughtUp(t *testing.T, log *logtest.Buffer, members int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		text := log.String()
		if strings.Count(text, `msg="raft runs"`) == members && strings.Count(text, `msg="this member takes part in the ensemble"`) == members {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("a member has not caught up:\n%s", text)
		}
	}
}

// wantRoles checks as a client of the observer which servers the list has, and that a node is there.
func wantRoles(t *testing.T, lines []string, node string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, observer, _ := strings.Cut(lines[3], ";")
	c, err := client.Dial(ctx, observer, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	if _, _, err := c.Create(ctx, "/written", nil, client.Persistent); err != nil {
		t.Error(err)
	}
	if _, exists, err := c.Exists(ctx, node); err != nil || !exists {
		t.Errorf("%s: there: %t, %v", node, exists, err)
	}
	list, _, err := c.Get(ctx, "/zookeeper/config")
	if want := strings.Join(lines, "\n") + "\nversion="; err != nil || !strings.HasPrefix(string(list), want) {
		t.Errorf("the list is %q, %v; want %q", list, err, want)
	}
}

// recoverObserver recovers a member whose line is that of an observer: not before it votes. A rejection
// changes nothing.
func recoverObserver(t *testing.T, file, line string) {
	t.Helper()
	for range 2 {
		out, err := command(t, "recover", "--yes", file)
		if cli.StatusOf(err) != cli.Conflict || !strings.Contains(err.Error(), "remove :observer from its line server.4 there") {
			t.Errorf("recovery of an observer: %v\n%s", err, out)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(strings.Replace(text, line, strings.Replace(line, "observer", "participant", 1), 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(string(text))
	out, err := command(t, "recover", file) // the confirmation gets no reply
	if err == nil || !strings.Contains(err.Error(), "not confirmed; nothing was changed") || !strings.Contains(out, "and the others with empty directories: they copy its data.") || strings.Contains(out, "at once") {
		t.Errorf("recovery with four servers: %v\n%s", err, out)
	}
	write(regexp.MustCompile(`(?m)^server\.[123]=.*\n`).ReplaceAllString(string(text), "") + "standaloneEnabled=false\n")
	out, err = command(t, "recover", "--yes", file)
	if cli.StatusOf(err) != cli.Conflict || !strings.Contains(out, "the data have member 1 (") || !strings.Contains(out, "\nserver.1=") || strings.Contains(err.Error(), "\n") {
		t.Errorf("recovery with one of four servers: %v\n%s", err, out)
	}
	out, err = command(t, "recover", "--yes", "--other-servers", file)
	if err != nil || !strings.Contains(out, "Member 4 can be started now.") || !strings.Contains(out, "It serves clients at once.") || strings.Contains(out, "the others") {
		t.Errorf("recovery of a former observer: %v\n%s", err, out)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runCommand(ctx, []string{"serve", file}, nil, io.Discard, io.Discard) }()
	_, address, _ := strings.Cut(line, ";")
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := client.Dial(wait, address, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, exists, err := c.Exists(wait, "/written"); err != nil || !exists {
		t.Errorf("/written on the recovered member: there: %t, %v", exists, err)
	}
	c.Abandon()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
