package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// withBackup are the headers of an administrator who sends a backup.
var withBackup = []string{"Authorization", "digest super:secret", "Content-Type", "application/octet-stream"}

// ZooKeeper's command restore has the body written into the ensemble, and says in ZooKeeper's way why it is not.
func TestRestoreCommand(t *testing.T) {
	for _, tt := range []struct {
		name   string
		visit  visit
		off    bool
		fails  error
		status int
		want   string
	}{
		{"a backup", visit{header: withBackup}, false, nil, 200, "{\n  \"last_zxid\" : 25769803777,\n  \"nodes\" : 9,\n  \"created\" : 2,\n  \"set\" : 3,\n  \"acls\" : 4,\n  \"deleted\" : 5,\n  \"left\" : 6,\n  \"skipped\" : 7,\n  \"command\" : \"restore\",\n  \"error\" : null\n}"},
		{"by its other name", visit{header: withBackup, path: "/commands/rest"}, false, nil, 200, `"last_zxid" : 25769803777`},
		{"switched off", visit{header: withBackup}, true, nil, 503, "admin.restore.enabled=false"},
		{"not sound", visit{header: withBackup}, false, &Failure{Status: 400, Text: "the body is no backup"}, 400, `"error" : "the body is no backup"`},
		{"without credentials", visit{header: withBackup[2:]}, false, nil, 401, "credentials"},
		{"from elsewhere", visit{header: withBackup, from: "10.0.0.9:5"}, false, nil, 403, "own machine"},
		{"of another type", visit{header: []string{"Authorization", "digest super:secret", "Content-Type", "application/json"}}, false, nil, 415, "must be application/octet-stream"},
		{"with GET", visit{header: withBackup, method: "GET"}, false, nil, 405, "send it with POST"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := newTestHTTP(t, "leader")
			h.backups.snapshotSettings.noRestores, opsOf(h).err = tt.off, tt.fails
			tt.visit.body = "the backup"
			if tt.visit.method == "" {
				tt.visit.method = "POST"
			}
			if tt.visit.path == "" {
				tt.visit.path = "/commands/restore"
			}
			w := tt.visit.to(h)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%s: %d %s, want %d %s", tt.name, w.Code, w.Body, tt.status, tt.want)
			}
			asked := opsOf(h).path
			if sent := tt.status == 200 || tt.fails != nil; sent != (asked == "the backup") || sent && opsOf(h).address != "127.0.0.1" {
				t.Errorf("%s: the member was asked to restore %q for %s", tt.name, asked, opsOf(h).address)
			}
			time.Sleep(DefaultSnapshotInterval + time.Millisecond) // its timer ends
		})
	}
}

// An empty body is rejected before any Operation is called.
func TestEmptyRestore(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	r, err := http.NewRequestWithContext(t.Context(), "POST", "/commands/restore", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, failed := h.backups.runRestore(recorder{}, r); failed == nil || failed.Status != 400 ||
		!strings.Contains(failed.Text, "empty") || opsOf(h).asked != "" {
		t.Errorf("%v, asked for %q", failed, opsOf(h).asked)
	}
}

// A member takes one restore at a time, and one in the interval after one that is done. One that fails can be sent again at once.
func TestRestoresAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, log := newAudited(t)
		request := visit{method: "POST", path: "/commands/restore", header: withBackup, body: "b"}
		opsOf(h).err = &Failure{Status: http.StatusInternalServerError, Text: "ended when 3 of 9 nodes were as in the backup"}
		for range 2 {
			if w := request.to(h); w.Code != 500 || !strings.Contains(w.Body.String(), "3 of 9 nodes") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		finish := make(chan struct{})
		opsOf(h).restore = func(context.Context, RestoreRequest) (RestoreResult, error) {
			<-finish
			return RestoreResult{}, nil
		}
		go request.to(h)
		synctest.Wait()
		refused := func(when string) {
			t.Helper()
			if w := request.to(h); w.Code != 429 || w.Header().Get("Retry-After") != "301" ||
				!strings.Contains(w.Body.String(), "one restore at a time, and the next one 5m0s") {
				t.Errorf("%s: %d %v %s", when, w.Code, w.Header(), w.Body)
			}
		}
		refused("while another one is under way")
		time.Sleep(DefaultSnapshotInterval)
		refused("while another one is under way for long")
		close(finish)
		synctest.Wait()
		refused("after it")
		time.Sleep(DefaultSnapshotInterval + time.Millisecond)
		if w := request.to(h); w.Code != 200 {
			t.Errorf("after the interval: %d %s", w.Code, w.Body)
		}
		time.Sleep(DefaultSnapshotInterval + time.Millisecond)
		for _, want := range []string{"action=restore target=\"this member\" by=super from=127.0.0.1:1 outcome=done", "outcome=\"failed: ended when 3 of 9 nodes"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, log)
			}
		}
	})
}

// sendRestore sends the headers of a restore with a body of so many bytes.
func sendRestore(t *testing.T, c net.Conn, size int) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "POST /commands/restore HTTP/1.1\r\nHost: localhost\r\nAuthorization: digest super:secret\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", size); err != nil {
		t.Fatal(err)
	}
}

// A backup may take longer to send than another request, as long as bytes come. A client that stops sending is cut off,
// and its place comes free. If the place is taken, the reply does not wait for the body.
func TestSlowRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		h.backups.snapshotSettings.interval = time.Nanosecond
		p, stop := serveOn(t, h)
		defer stop()
		c := p.dial()
		sendRestore(t, c, 10)
		for range 10 {
			time.Sleep(requestTimeout - time.Second)
			if _, err := io.WriteString(c, "x"); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || answer.StatusCode != 200 || opsOf(h).path != "xxxxxxxxxx" {
			t.Fatalf("%v, %v; the member got %q", answer, err, opsOf(h).path)
		}
		c.Close()
		time.Sleep(time.Millisecond) // the interval
		c = p.dial()
		sendRestore(t, c, 10)
		if _, err := io.WriteString(c, "half"); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		answer, err = http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || answer.StatusCode != 400 || opsOf(h).path != "half" || time.Since(begun) > partTimeout+time.Second {
			t.Errorf("half a body: %v, %v after %v; the member got %q", answer, err, time.Since(begun), opsOf(h).path)
		}
		synctest.Wait()
		if len(h.backups.restoreSlot) != 0 {
			t.Error("its place is taken")
		}
		c.Close()
		h.backups.restoreSlot <- struct{}{}
		c = p.dial()
		sendRestore(t, c, 10)
		begun = time.Now()
		answer, err = http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || answer.StatusCode != 429 || time.Since(begun) > 0 {
			t.Errorf("while its place is taken: %v, %v after %v", answer, err, time.Since(begun))
		}
		c.Close()
	})
}

// A restore that is under way ends when its client leaves, and not before, however long it takes.
func TestRestoreEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		ended := make(chan time.Duration, 1)
		opsOf(h).restore = func(ctx context.Context, r RestoreRequest) (RestoreResult, error) {
			if _, err := io.ReadAll(r.Body); err != nil || r.BodySize != 4 {
				t.Errorf("a body of %d bytes: %v", r.BodySize, err)
			}
			begun := time.Now()
			<-ctx.Done()
			ended <- time.Since(begun)
			return RestoreResult{}, &Failure{Status: http.StatusInternalServerError, Text: "the request ended"}
		}
		p, stop := serveOn(t, h)
		defer stop()
		c := p.dial()
		sendRestore(t, c, 4)
		if _, err := io.WriteString(c, "body"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatalf("it ended after %v", <-ended)
		}
		c.Close()
		if after := <-ended; after != time.Hour {
			t.Errorf("it ended after %v", after)
		}
		synctest.Wait() // its place is free: a member takes one restore at a time
		c = p.dial()
		sendRestore(t, c, 4)
		if _, err := io.WriteString(c, "body"); err != nil {
			t.Fatal(err)
		}
		if after := <-ended; after != restoreTimeout {
			t.Errorf("with a client that waits, it ended after %v", after)
		}
		c.Close()
	})
}
