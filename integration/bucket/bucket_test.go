// Package bucket tests archives in a bucket of a service that others have written (github.com/johannesboyne/gofakes3). It is a module of
// its own, because that service needs Amazon's library.
package bucket

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"rollcall/operator/archive"
	"rollcall/operator/archive/archivetest"
	"rollcall/operator/archive/location"
	"rollcall/operator/past"
	"rollcall/operator/past/pasttest"
)

// openBucket returns an archive in a bucket of a new service.
func openBucket(t *testing.T) archive.Store {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("aws_access_key_id=key\naws_secret_access_key=secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := location.Open(location.Settings{To: "s3://bucket/some/prefix", Endpoint: server.URL, CredentialsFile: file})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Two senders store the same objects at the same time: each is stored once, and is never replaced. Every moment of the
// archive can be built.
func TestArchiveInABucket(t *testing.T) {
	e := pasttest.New(t, time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC).UnixMilli())
	local := archive.NewDirectory(t.TempDir())
	digests := map[int64]uint64{}
	c := e.Connect("10.0.0.7:1")
	for range 12 {
		for range 5 {
			zxid := c.Create("/n-"+strings.Repeat("x", len(digests)+1), "data", 0)
			digests[zxid] = e.State.Digest()
		}
		archivetest.Fill(t, local, e) // an object more each time
	}
	objects := contents(t, local)
	store := openBucket(t)
	var stored, taken sync.Map
	var senders sync.WaitGroup
	for i := range uint64(2) {
		senders.Go(func() {
			names := make([]string, 0, len(objects))
			for name := range objects {
				names = append(names, name)
			}
			rand.New(rand.NewPCG(i, 1)).Shuffle(len(names), func(a, b int) { names[a], names[b] = names[b], names[a] })
			for _, name := range names {
				switch err := store.Put(t.Context(), name, objects[name]); {
				case err == nil:
					if _, twice := stored.LoadOrStore(name, true); twice {
						t.Errorf("%s was stored twice", name)
					}
				case errors.Is(err, archive.ErrExists):
					taken.Store(name, true)
				default:
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	for name := range objects {
		_, once := stored.Load(name)
		if _, again := taken.Load(name); !once || !again {
			t.Errorf("%s: stored %t, rejected %t", name, once, again)
		}
	}
	logs, err := archive.List(t.Context(), store)
	if err != nil || len(logs) != 1 || len(logs[0].Spans) != 1 {
		t.Fatalf("%+v, %v", logs, err)
	}
	v, err := archive.Verify(t.Context(), store, &logs[0], logs[0].Spans[0])
	if err != nil || len(v.Damage) > 0 || v.Objects != len(objects) || len(objects) < 12 {
		t.Fatalf("%+v, %v; %d objects", v, err, len(objects))
	}
	for zxid, want := range digests {
		built, err := past.Open(t.Context(), archive.NewChain(store, &logs[0], logs[0].Spans[0]), past.AtZxid(zxid))
		if err != nil {
			t.Fatal(err)
		}
		if built.State().Digest() != want {
			t.Errorf("zxid 0x%x has another state", zxid)
		}
		built.Close()
	}
	if _, err := store.Open(t.Context(), "none"); err == nil || !strings.Contains(err.Error(), "s3://bucket/some/prefix/none") {
		t.Errorf("no object: %v", err)
	}
}

// contents returns the objects of an archive with one log that has no snapshots.
func contents(t *testing.T, store archive.Store) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for item, err := range store.List(t.Context(), archivetest.LogName+"/entries/", "") {
		if err != nil {
			t.Fatal(err)
		}
		f, err := store.Open(t.Context(), item.Name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		all[item.Name] = b
	}
	return all
}
