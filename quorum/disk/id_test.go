package disk

import (
	"errors"
	"os"
	"testing"

	"github.com/hashicorp/raft"
)

// memoryStores are stores in memory.
func memoryStores() Stores {
	store := raft.NewInmemStore()
	return Stores{Log: store, Stable: store, Snapshots: raft.NewInmemSnapshotStore()}
}

// The id of a disk is drawn once. Another disk has another one.
func TestDiskID(t *testing.T) {
	s := memoryStores()
	first, err := ensureDiskID(s)
	if err != nil || first == 0 {
		t.Fatalf("drawn: %v, %v", first, err)
	}
	if err := s.Log.StoreLog(&raft.Log{Index: 1, Term: 1}); err != nil {
		t.Fatal(err)
	}
	if again, err := ensureDiskID(s); again != first || err != nil {
		t.Errorf("later: %v, %v; want %v", again, err, first)
	}
	if other, err := ensureDiskID(memoryStores()); other == first || err != nil {
		t.Errorf("of another disk: %v, %v", other, err)
	}
}

// A disk with votes or entries and without its id is damaged: another id would vote again. So is one whose id has changed.
func TestDiskIDIsNotReplaced(t *testing.T) {
	for name, harm := range map[string]func(s Stores) error{
		"a term":   func(s Stores) error { return s.Stable.SetUint64(keyTerm, 3) },
		"an entry": func(s Stores) error { return s.Log.StoreLog(&raft.Log{Index: 1, Term: 1}) },
		"a changed id": func(s Stores) error {
			return s.Stable.Set(keyDisk, []byte("\x00\x00\x00\x00\x00\x00\x00\x01\x02\x03\x04\x05"))
		},
		"a part of one":  func(s Stores) error { return s.Stable.Set(keyDisk, []byte("\x00\x00\x00\x00\x00\x00\x00\x01")) },
		"a snapshot too": func(s Stores) error { return snapshotInto(s) },
	} {
		s := memoryStores()
		if err := harm(s); err != nil {
			t.Fatal(err)
		}
		if id, err := ensureDiskID(s); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, %v; want %v", name, id, err, ErrDamaged)
		}
	}
}

func snapshotInto(s Stores) error {
	_, trans := raft.NewInmemTransport("")
	sink, err := s.Snapshots.Create(1, 5, 2, raft.Configuration{}, 1, trans)
	if err != nil {
		return err
	}
	return sink.Close()
}

// idOf opens directories, and returns the id of their disk, which OpenStopped
// must find, too.
func idOf(t *testing.T, cfg Config) ID {
	t.Helper()
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	id := d.ID()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	stopped, err := OpenStopped(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	if id == 0 || stopped.ID() != id {
		t.Errorf("disk %v, and when it is stopped %v", id, stopped.ID())
	}
	return id
}

// A new directory has an id on the disk as soon as Open returns, and keeps it. So what is copied at that moment has it.
// An emptied directory has another one. The id is with the votes, in the directory of the log if that is apart.
func TestDiskIDIsDurable(t *testing.T) {
	for _, apart := range []bool{false, true} {
		cfg := seedConfig(t, apart)
		d, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		first := d.ID()
		killed := copied(t, cfg)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if id := idOf(t, cfg); id != first {
				t.Errorf("apart %t: %v at the start, then %v", apart, first, id)
			}
		}
		if id := idOf(t, killed); id != first {
			t.Errorf("apart %t: %v at the start, and %v in a copy from then", apart, first, id)
		}
		for _, own := range ownDirectories(cfg) {
			if err := os.RemoveAll(own); err != nil {
				t.Fatal(err)
			}
		}
		if id := idOf(t, cfg); id == first {
			t.Errorf("apart %t: the emptied directories are still the disk %v", apart, id)
		}
	}
}

// A start that was killed after it had made the log, and before it drew the id, is repeated. Nothing can be recovered from such
// directories, and nothing in them is damaged.
func TestKilledBeforeDiskID(t *testing.T) {
	cfg := seedConfig(t, true)
	fs, _, closer, err := openDirectoriesAndStores(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		if err := f.close(); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := OpenStopped(cfg); !errors.Is(err, ErrNoData) || errors.Is(err, ErrDamaged) {
		t.Errorf("stopped: %v, %v", d, err)
	}
	if _, err := ReadDataEnd(cfg.DataDir, cfg.LogDir); !errors.Is(err, ErrNoData) {
		t.Errorf("examined: %v", err)
	}
	idOf(t, cfg)
}

// Directories that have votes or entries are rejected if their disk id is lost or damaged, whether or not the member is
// to run. The files stay as they are, so a second start is rejected too.
func TestDamagedDiskID(t *testing.T) {
	lose := func(d *Data) error { return d.unguarded.Stable.Set(keyDisk, nil) }
	for name, harm := range map[string]func(d *Data) error{
		"one bit": func(d *Data) error {
			b, err := d.unguarded.Stable.Get(keyDisk)
			if err != nil {
				return err
			}
			b = append([]byte(nil), b...)
			b[3] ^= 1
			return d.unguarded.Stable.Set(keyDisk, b)
		},
		"cut short":           func(d *Data) error { return d.unguarded.Stable.Set(keyDisk, []byte{1, 2, 3}) },
		"lost, with a term":   func(d *Data) error { return errors.Join(d.Stable().SetTerm(3), lose(d)) },
		"lost, with an entry": func(d *Data) error { return errors.Join(d.Log().StoreLog(&raft.Log{Index: 1, Term: 1}), lose(d)) },
		"lost, with a snapshot": func(d *Data) error {
			return errors.Join(fillIn(func() {})(d), d.unguarded.Stable.SetUint64(keyTerm, 0), lose(d))
		},
	} {
		for _, apart := range []bool{false, true} {
			cfg := seedConfig(t, apart)
			d, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(harm(d), d.Close()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if d, err := Open(cfg); !errors.Is(err, ErrDamaged) {
					t.Errorf("%s, apart %t: %v, %v", name, apart, d, err)
				}
				if d, err := OpenStopped(cfg); !errors.Is(err, ErrDamaged) {
					t.Errorf("%s, apart %t, stopped: %v, %v", name, apart, d, err)
				}
			}
		}
	}
}

// Seeded directories have an id before they are filled, and keep it. Two of them have two.
func TestSeededDiskID(t *testing.T) {
	seen := map[ID]bool{}
	for _, apart := range []bool{false, true} {
		cfg := seedConfig(t, apart)
		var filled ID
		err := Seed(cfg, again, func(d *Data) error {
			filled = d.ID()
			return fillIn(func() {})(d)
		})
		if err != nil {
			t.Fatal(err)
		}
		if id := idOf(t, cfg); id != filled || seen[id] {
			t.Errorf("apart %t: %v, when it was filled %v; seen before: %t", apart, id, filled, seen[id])
		}
		seen[filled] = true
	}
}
