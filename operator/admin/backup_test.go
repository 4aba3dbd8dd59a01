package admin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/backup"
)

// stateOf reads a backup, and returns its head and state.
func stateOf(r io.Reader) (backup.Head, string, error) {
	b, err := backup.NewReader(r)
	if err != nil {
		return backup.Head{}, "", err
	}
	state, err := io.ReadAll(b)
	return b.Head, string(state), err
}

// A backup is the member's head and state, with an end.
func TestV1Backup(t *testing.T) {
	for _, tt := range []struct {
		visit  visit
		status int
		want   string // in the state, or in the failure
	}{
		{visit{header: signedIn}, 200, "the state"},
		{visit{header: signedIn, path: "/v1/backup?rate=1"}, 200, "the state"},
		{visit{header: signedIn, path: "/v1/backup?rate=0"}, 400, "from 1 to 4096"},
		{visit{header: signedIn, path: "/v1/backup?rate=4097"}, 400, "from 1 to 4096"},
		{visit{header: signedIn, path: "/v1/backup?speed=1"}, 400, "it must be one of rate"},
		{visit{}, 401, "credentials"},
		{visit{header: signedIn, from: "10.0.0.9:5"}, 403, "own machine"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := newTestHTTP(t, "leader")
			if tt.visit.path == "" {
				tt.visit.path = "/v1/backup"
			}
			tt.visit.method = "GET"
			w := tt.visit.to(h)
			got := w.Body.String()
			if w.Code == 200 {
				head, state, err := stateOf(w.Body)
				if got = state; err != nil || head.Index != 7 {
					t.Errorf("%+v: head %+v: %v", tt.visit, head, err)
				}
				if name := w.Header().Get("Content-Disposition"); name != `attachment; filename="rollcall-20261120T024320Z-7.backup"` {
					t.Errorf("%s", name)
				}
			}
			if w.Code != tt.status || !strings.Contains(got, tt.want) {
				t.Errorf("%+v: %d %s, want %d %s", tt.visit, w.Code, got, tt.status, tt.want)
			}
		})
	}
}

// A HEAD gets the name of a backup and none of its bytes. A member that cannot make one replies with the reason.
func TestV1BackupWithoutState(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	if w := (visit{method: "HEAD", path: "/v1/backup", header: signedIn}).to(h); w.Code != 200 || w.Body.Len() > 0 ||
		w.Header().Get("Content-Disposition") == "" {
		t.Errorf("HEAD: %d with %d bytes", w.Code, w.Body.Len())
	}
	opsOf(h).err = &Failure{Status: http.StatusServiceUnavailable, Text: "this member is joining"}
	if w := (visit{method: "GET", path: "/v1/backup", header: signedIn}).to(h); w.Code != 503 ||
		w.Body.String() != `{"error":"this member is joining","reason":""}`+"\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A backup of a state that turns out to be damaged has no end, and the reason is logged.
func TestV1BackupOfDamage(t *testing.T) {
	h, log := newAudited(t)
	opsOf(h).state = func(w io.Writer) (int64, error) {
		n, _ := io.WriteString(w, "the first half")
		return int64(n), errors.New("the state in memory is damaged")
	}
	w := (visit{method: "GET", path: "/v1/backup", header: signedIn}).to(h)
	if _, _, err := stateOf(w.Body); w.Code != 200 || !errors.Is(err, backup.ErrCorrupt) {
		t.Errorf("%d, %v", w.Code, err)
	}
	if text := log.String(); !strings.Contains(text, "action=backup") || !strings.Contains(text, "failed: the state in memory is damaged") {
		t.Errorf("the log has %s", text)
	}
}

// At most maxBackups are made at once. Their places come free when they end, also when their clients leave.
func TestBackupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		opsOf(h).state = func(w io.Writer) (int64, error) {
			n, err := w.Write(make([]byte, 1<<20))
			return int64(n), err
		}
		request := visit{method: "GET", path: "/v1/backup?rate=1", header: signedIn}
		for range maxBackups {
			go request.to(h)
			synctest.Wait()
		}
		if w := request.to(h); w.Code != 503 || !strings.Contains(w.Body.String(), "other backups") {
			t.Errorf("one more: %d %s", w.Code, w.Body)
		}
		time.Sleep(2 * time.Second)
		if w := request.to(h); w.Code != 200 {
			t.Errorf("when they are done: %d %s", w.Code, w.Body)
		}
		ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		c := StateCopy{Head: backup.Head{Time: began}, WriteTo: opsOf(h).state}
		begun := time.Now()
		if err := c.WriteBackup(ctx, io.Discard, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > time.Second {
			t.Errorf("a client that left: %v after %v", err, time.Since(begun))
		}
	})
}

// A client that reads nothing is cut off, and its place comes free.
func TestStalledBackupEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		done := make(chan error, 1)
		opsOf(h).state = func(w io.Writer) (int64, error) {
			n, err := w.Write(bytes.Repeat([]byte("state"), 100_000))
			done <- err
			return int64(n), err
		}
		p, stop := serveOn(t, h)
		defer stop()
		c := p.dial()
		if _, err := io.WriteString(c, "GET /v1/backup HTTP/1.1\r\nHost: localhost\r\nAuthorization: digest super:secret\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := <-done; err == nil || time.Since(begun) > partTimeout+time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		synctest.Wait()
		if len(h.backups.backupSlots) != 0 {
			t.Error("its place is taken")
		}
	})
}
