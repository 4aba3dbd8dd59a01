package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dump returns everything that a State has as a text.
func dump(s *State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "zxid %#x epoch %d\n", s.Zxid, s.Epoch)
	for _, id := range slices.Sorted(maps.Keys(s.Sessions)) {
		fmt.Fprintf(&b, "session %v %d\n", id, s.Sessions[id])
	}
	_ = s.Walk(func(n *Node) error {
		fmt.Fprintf(&b, "%s %q %t %q %x %x %x %d %d %d %d %d %x\n", n.Path, n.Data, n.Data == nil, n.ACL,
			n.Czxid, n.Mzxid, n.Pzxid, n.Ctime, n.Mtime, n.Version, n.Aversion, n.Creates, n.Owner)
		return nil
	})
	return b.String()
}

// copyDirectory copies a golden directory, and returns the copy and its files.
func copyDirectory(t *testing.T, name string) (dir string, copies []string) {
	t.Helper()
	dir = t.TempDir()
	paths, err := filepath.Glob(filepath.Join("testdata", name, versionDirName, "*"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
		copies = append(copies, to)
	}
	return dir, copies
}

// mustRead reads a directory that is not damaged.
func mustRead(t *testing.T, dir string) *State {
	t.Helper()
	s, _, err := Read([]Directory{{Data: dir}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// If a byte of a file is wrong, Read returns the right state, or rejects the file by its name and an offset. One byte of
// nine is tried, and one of 61 with -short and among zeros.
func TestEveryByteWrong(t *testing.T) {
	for _, name := range golden {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, copies := copyDirectory(t, name)
			want := dump(mustRead(t, dir))
			refused, same := 0, 0
			for _, path := range copies {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				f, err := os.OpenFile(path, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				for at := range text {
					for _, wrong := range wrongs(text, at) {
						if _, err := f.WriteAt([]byte{wrong}, int64(at)); err != nil {
							t.Fatal(err)
						}
						s, _, err := Read([]Directory{{Data: dir}}, Options{})
						var d *Damage
						switch {
						case err == nil && dump(s) == want:
							same++
						case err == nil:
							t.Errorf("%s: byte %d is %#x and not %#x: another state\n%s", path, at, wrong, text[at], dump(s))
						case !errors.As(err, &d) || d.File == "" || d.Problem == "":
							t.Errorf("%s: byte %d: %v: want what names a file", path, at, err)
						default:
							refused++
						}
						if t.Failed() {
							return
						}
					}
					if _, err := f.WriteAt(text[at:at+1], int64(at)); err != nil {
						t.Fatal(err)
					}
				}
				f.Close()
			}
			if refused == 0 || same == 0 {
				t.Errorf("%d refused, %d read: want some of each", refused, same)
			}
		})
	}
}

// wrongs returns the replacements of a byte: it with one bit changed, and for some all bits. In a long run of zeros, few
// places are tried.
func wrongs(text []byte, at int) []byte {
	zero := slices.Max(text[max(0, at-8):min(len(text), at+8)]) == 0
	if (zero || testing.Short()) && at%61 != 0 || at%9 != 0 {
		return nil
	}
	if at%7 == 0 {
		return []byte{text[at] ^ 1<<(at%8), ^text[at]}
	}
	return []byte{text[at] ^ 1<<(at%8)}
}

// Wherever a file ends too early, Read returns the right state or rejects the file by its name. For the newest log it
// may also read the records that ZooKeeper itself would read: all complete ones before the end.
func TestEveryCut(t *testing.T) {
	for _, name := range golden {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, copies := copyDirectory(t, name)
			want := mustRead(t, dir)
			newest := newestLog(t, dir)
			ends, states := wholeRecords(t, dir, newest)
			shorter, refused := 0, 0
			for _, path := range copies {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				for size := len(text) - 1; size >= 0; size-- {
					if testing.Short() && size%61 != 0 || size%17 != 0 && size < len(text)-200 {
						continue
					}
					if err := os.Truncate(path, int64(size)); err != nil {
						t.Fatal(err)
					}
					s, report, err := Read([]Directory{{Data: dir}}, Options{})
					var d *Damage
					switch {
					case err != nil && errors.As(err, &d) && d.File != "":
						refused++
					case err != nil:
						t.Fatalf("%s: %d bytes: %v: want what names a file", path, size, err)
					case dump(s) == dump(want):
					case path == newest:
						whole := 0
						for whole < len(ends) && ends[whole] <= int64(size) {
							whole++
						}
						if dump(s) != states[whole] {
							t.Fatalf("%s: %d bytes: %s; want the state after %d whole records, %s", path, size, dump(s), whole, states[whole])
						}
						shorter++
						rest := bytes.TrimRight(text[:size], "\x00") // a record begins with zeros
						if len(report.Notes) == 0 && len(rest) > headSize && rest[len(rest)-1] != recordEndMark {
							t.Fatalf("%s: %d bytes: the cut is not noted", path, size)
						}
					default:
						t.Fatalf("%s: %d bytes: another state:\n%s", path, size, dump(s))
					}
				}
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if refused == 0 || shorter == 0 {
				t.Errorf("%d refused, %d shorter: want some of each", refused, shorter)
			}
		})
	}
}

// wholeRecords returns the offsets at which the records of a directory's newest log end, and the state after each number
// of them.
func wholeRecords(t *testing.T, dir, newest string) (ends []int64, states []string) {
	t.Helper()
	log, err := openLog(newest, false)
	if err != nil {
		t.Fatal(err)
	}
	defer log.closeFile()
	text, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	for end := int64(headSize); ; end = log.offset() {
		if err := os.Truncate(newest, end); err != nil {
			t.Fatal(err)
		}
		states = append(states, dump(mustRead(t, dir)))
		if err := os.WriteFile(newest, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if end > headSize {
			ends = append(ends, end)
		}
		rec, err := log.nextRecord()
		if err != nil {
			t.Fatal(err)
		}
		if rec == nil {
			return ends, states
		}
	}
}

// newestLog returns the path of the newest log of a directory.
func newestLog(t *testing.T, dir string) string {
	t.Helper()
	found, err := Directory{Data: dir}.listFiles()
	if err != nil {
		t.Fatal(err)
	}
	return found.logs[len(found.logs)-1].path
}
