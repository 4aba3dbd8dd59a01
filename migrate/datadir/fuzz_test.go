package datadir

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// addGolden adds the golden files that match to the corpus.
func addGolden(f *testing.F, pattern string) {
	f.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "*", versionDirName, pattern))
	if err != nil || len(paths) == 0 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
}

// Whatever a snapshot has, it is read or rejected, and a walk visits a state that was read.
func FuzzSnapshot(f *testing.F) {
	addGolden(f, "snapshot.*")
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, size := range []int64{int64(len(text)), -1} {
			r := snapshotReader{valueReader: newValueReader(bytes.NewReader(text), size), state: NewState()}
			if err := r.readParts(); err != nil {
				continue
			}
			n := 0
			if err := r.state.Walk(func(*Node) error { n++; return nil }); err != nil || n != r.state.Len() {
				t.Errorf("a walk has %d of %d nodes: %v", n, r.state.Len(), err)
			}
		}
	})
}

// Whatever a log has, it is read or rejected as Damage.
func FuzzLog(f *testing.F) {
	addGolden(f, "log.*")
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "log.1"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, options := range []Options{{TrustEmpty: true}, {TrustEmpty: true, AsZooKeeper: true}} {
			s, _, err := Read([]Directory{{Data: dir}}, options)
			var d *Damage
			if err != nil && !errors.As(err, &d) {
				t.Fatalf("%v: want a Damage", err)
			}
			if err == nil && s.Get("/") == nil {
				t.Error("there is no root")
			}
		}
	})
}

// Whatever the body of a transaction has, it is decoded or rejected.
func FuzzTxn(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join("testdata", "plain", versionDirName, "log.*"))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		log, err := openLog(path, false)
		if err != nil {
			f.Fatal(err)
		}
		for {
			rec, err := log.nextRecord()
			if err != nil {
				f.Fatal(err)
			}
			if rec == nil {
				break
			}
			f.Add(bytes.Clone(rec.body))
		}
		log.closeFile()
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := NewState()
		if err := s.Add(Node{Path: "/"}); err != nil {
			t.Fatal(err)
		}
		s.digest.computeFor(s)
		tx, err := s.decodeTxn(body)
		if err != nil {
			return
		}
		s.applyTxn(&tx)
		again := s.digest
		again.computeFor(s)
		if s.digest != again {
			t.Errorf("digest %+v after the transaction; counted again %+v", s.digest, again)
		}
	})
}

// Whatever a snappy file has, it is unpacked or rejected.
func FuzzSnappy(f *testing.F) {
	addGolden(f, "snapshot.*.snappy")
	f.Fuzz(func(_ *testing.T, text []byte) {
		if z, err := newSnappyReader(bytes.NewReader(text)); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(z, 64<<20))
		}
	})
}
