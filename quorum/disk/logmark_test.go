package disk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A mark is read as it was written. A mark with a wrong bit is rejected.
func TestMarkHasAWrongBit(t *testing.T) {
	end, bolt := logEnd{logID: 7, segment: 3, index: 40}, boltMark{txID: 9, valuesChecksum: 99}
	for name, tt := range map[string]struct {
		b      []byte
		decode func(b []byte) (same bool, err error)
	}{
		"of the log": {end.encode(), func(b []byte) (bool, error) {
			e, err := decodeLogEnd(b)
			return e == end, err
		}},
		"of the BoltDB": {bolt.encode(), func(b []byte) (bool, error) {
			m, err := decodeBoltMark(b)
			return m == bolt, err
		}},
	} {
		if same, err := tt.decode(tt.b); !same || err != nil {
			t.Errorf("the mark %s: the same %t, %v", name, same, err)
		}
		for bit := range 8 * len(tt.b) {
			tt.b[bit/8] ^= 1 << (bit % 8)
			if _, err := tt.decode(tt.b); !errors.Is(err, ErrDamaged) {
				t.Errorf("the mark %s, bit %d is wrong: %v", name, bit, err)
			}
			tt.b[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// A mark that cannot be written is an error. One that cannot be synced is an error only if it must be durable.
func TestRecordMarkFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), logMarkName)
	if err := os.WriteFile(path, nil, fileMode); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		open       func() (*os.File, error)
		sync, fail bool
	}{
		"not written":              {func() (*os.File, error) { return os.Open(path) }, false, true},
		"not written, and to sync": {func() (*os.File, error) { return os.Open(path) }, true, true},
		"not synced":               {openUnsyncable, true, true},
		"not to be synced":         {openUnsyncable, false, false},
	} {
		file, err := tt.open()
		if err != nil {
			t.Fatal(err)
		}
		m := logMark{file: file}
		if err := m.record(logEnd{logID: 7, segment: 3, index: 40}, tt.sync); (err != nil) != tt.fail {
			t.Errorf("%s: %v", name, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
