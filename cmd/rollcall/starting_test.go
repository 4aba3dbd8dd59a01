package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"rollcall/operator/api"
)

// While a member reads its snapshot at the start, health, /readyz and status say with the same words how much of it has been
// read. Here the snapshot is a pipe, so the member reads as much as the test has written.
func TestStartReadsSnapshot(t *testing.T) {
	base := freePorts(t, 2)
	dir, _ := inDir(t, map[string]string{"zoo.cfg": fmt.Sprintf("dataDir=DIR/data\ntickTime=500\nclientPortAddress=127.0.0.1\n"+
		"clientPort=%d\nadmin.serverAddress=127.0.0.1\nadmin.serverPort=%d\n", base, base+1)})
	file, admin := filepath.Join(dir, "zoo.cfg"), fmt.Sprintf("127.0.0.1:%d", base+1)
	if _, err := restoreCommand(t, writeBackup(t, t.TempDir()), file); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "data", "rollcall", "snapshots", "*", "state.bin"))
	if err != nil || len(found) != 1 {
		t.Fatalf("snapshots %q, %v", found, err)
	}
	state, err := os.ReadFile(found[0])
	if err = errors.Join(err, os.Remove(found[0]), syscall.Mkfifo(found[0], 0o600)); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(found[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	half := len(state) / 2
	if _, err := pipe.Write(state[:half]); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- runCommand(ctx, []string{"serve", file}, nil, io.Discard, io.Discard) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	want := fmt.Sprintf("this member has started: it reads its snapshot, %d %%", 100*half/len(state))
	readyz := ""
	waitUntil(t, want, func() bool {
		reply, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return false
		}
		text, _ := io.ReadAll(reply.Body)
		_ = reply.Body.Close()
		readyz = strings.TrimSpace(string(text))
		return readyz == want
	})
	if err := runCommand(t.Context(), []string{"health", file}, nil, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "not serving: "+want) {
		t.Errorf("health: %v; /readyz says %q", err, readyz)
	}
	var out strings.Builder
	var members []api.Member
	err = runCommand(t.Context(), []string{"status", "--admin", admin, "-o", "json"}, nil, &out, io.Discard)
	if err = errors.Join(err, json.Unmarshal([]byte(out.String()), &members)); err != nil || len(members) != 1 || members[0].NotServing != want || members[0].IsJoining {
		t.Errorf("status: %s, %v; /readyz says %q", out.String(), err, readyz)
	}
	_, err = pipe.Write(state[half:])
	if err = errors.Join(err, pipe.Close()); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the member to serve", func() bool {
		return runCommand(t.Context(), []string{"health", file}, nil, io.Discard, io.Discard) == nil
	})
}
