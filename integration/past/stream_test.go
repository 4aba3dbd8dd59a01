package past

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/operator/api"
)

// A stream of changes continues after each restart of all members, on another member each time, without loss or
// repetition. In the end it has the same changes as a list of all. After the restarts, rollcall why names the cause of a
// removal before them.
func TestStreamContinuesOverRestarts(t *testing.T) {
	needs.Check(t, needs.Usual)
	w := &world{t: t, tokenFile: filepath.Join(t.TempDir(), "token")}
	if err := os.WriteFile(w.tokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.ensemble = process.StartEnsemble(t, process.Config{
		Binary: rollcall, Size: 3, Tick: time.Second,
		Lines: process.AnyHTTP + "snapCount=25\nadmin.tokenFile=" + w.tokenFile + "\n",
	})
	w.ensemble.Settle()
	var got []api.Change
	w.createAndDelete("/gone")
	query := "?follow=true&from=" + w.writeSome(1)
	for round := range 3 {
		m := w.ensemble.Members[round]
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		zxid := w.writeSome(40) // snapshots are taken meanwhile
		got = append(got, w.readStream(ctx, m, query, func(c api.Change) bool { return c.Zxid != zxid })...)
		stop()
		last := got[len(got)-1]
		query = fmt.Sprintf("?follow=true&from=%s&number=%d", last.Zxid, last.Number)
		for _, m := range w.ensemble.Members { // so that none applies the first removal again
			w.takeSnapshot(m)
		}
		w.ensemble.KillAll()
		for _, m := range w.ensemble.Members {
			w.ensemble.Start(m)
		}
		w.ensemble.Settle()
		w.ensemble.Joined()
	}
	w.checkWhy("/gone")
	all := w.readStream(t.Context(), w.ensemble.Members[0], "?from="+got[0].Zxid, func(c api.Change) bool { return c.Operation != "passed" })
	want := slices.DeleteFunc(all, func(c api.Change) bool { return c.Operation == "passed" })
	end := slices.IndexFunc(want, func(c api.Change) bool { return c.Zxid == got[len(got)-1].Zxid })
	keys := func(rows []api.Change) (texts []string) {
		for _, c := range rows {
			texts = append(texts, fmt.Sprintf("%s.%d %s %s", c.Zxid, c.Number, c.Operation, c.Path))
		}
		return texts
	}
	if first, rest := keys(got[1:]), keys(want[:end+1]); len(rest) < 120 || !slices.Equal(first, rest) {
		t.Errorf("the stream has %d changes: %q\nand the list %d: %q", len(first), first, len(rest), rest)
	}
}

// takeSnapshot has a member write a snapshot, after one that it may be writing already.
func (w *world) takeSnapshot(m *process.Member) {
	w.t.Helper()
	err := process.Until(w.t.Context(), "a snapshot is written", func() bool {
		_, err := api.Post[api.Snapshot](w.t.Context(), w.adminClient(m), "snapshot", struct{}{})
		rejected, is := errors.AsType[*api.Error](err)
		if err != nil && (!is || rejected.Status != http.StatusConflict) {
			w.t.Fatal(err)
		}
		return err == nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// createAndDelete makes a node and deletes it.
func (w *world) createAndDelete(path string) {
	w.t.Helper()
	c := w.dial()
	defer func() { _ = c.Close(w.t.Context()) }()
	_, _, err := c.Create(w.t.Context(), path, nil, client.Persistent)
	if err := errors.Join(err, c.Delete(w.t.Context(), path, client.AnyVersion)); err != nil {
		w.t.Fatal(err)
	}
}

// checkWhy checks that the members do not remember what removed a path, and that rollcall why finds it.
func (w *world) checkWhy(path string) {
	w.t.Helper()
	addr, err := w.ensemble.Members[0].HTTP()
	if err != nil {
		w.t.Fatal(err)
	}
	var errs strings.Builder
	why := exec.CommandContext(w.t.Context(), rollcall, "why", "--admin", "http://"+addr, "--token-file", w.tokenFile, path)
	why.Stderr = &errs
	out, err := why.Output()
	if err != nil || !strings.Contains(string(out), "delete") || !strings.Contains(errs.String(), "searching the log that they keep") {
		w.t.Errorf("rollcall why %s: %v\n%s%s", path, err, out, errs.String())
	}
}

func (w *world) dial() *client.Client {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), time.Minute)
	defer stop()
	c, err := client.Dial(ctx, strings.Join(w.ensemble.ClientAddresses(w.ensemble.Members[0]), ","), client.Config{Timeout: 20 * time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// writeSome writes n times, and returns the zxid of the last one.
func (w *world) writeSome(n int) (zxid string) {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), time.Minute)
	defer stop()
	c := w.dial()
	defer func() { _ = c.Close(ctx) }()
	for i := range n {
		_, stat, err := c.Create(ctx, "/s-", []byte(fmt.Sprint(i)), client.PersistentSequential)
		if err != nil {
			w.t.Fatal(err)
		}
		zxid = fmt.Sprintf("0x%x", stat.Created)
	}
	return zxid
}

// readStream returns the changes of a stream of a member up to the first one for which more returns false, and after which it leaves.
func (w *world) readStream(ctx context.Context, m *process.Member, query string, more func(api.Change) bool) (rows []api.Change) {
	w.t.Helper()
	c := w.adminClient(m)
	var body io.ReadCloser
	var rejected error
	err := process.Until(ctx, "the member has applied the log so far again, and sends its changes", func() bool {
		body, rejected = c.OpenStream(ctx, "changes"+query)
		return rejected == nil
	})
	if err != nil {
		w.t.Fatal(err, rejected)
	}
	defer func() { _ = body.Close() }()
	for d := json.NewDecoder(bufio.NewReader(body)); ; {
		var row api.Change
		if err := d.Decode(&row); err != nil {
			w.t.Fatalf("after %d rows: %v", len(rows), errors.Join(err, ctx.Err()))
		}
		if row.Operation == "passed" && strings.Contains(query, "follow") {
			continue
		}
		if rows = append(rows, row); !more(row) {
			return rows
		}
	}
}
