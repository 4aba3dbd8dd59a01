package member

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"rollcall/internal/metrics"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/znode"
)

// Restore and Verify tell a snapshot of a newer version from a damaged one, and Verify returns how
// far a sound one goes.
func TestMachineVerifies(t *testing.T) {
	m := stateMachine{state: znode.New(znode.Config{}), onDamage: func(error) {}, onApplied: func() {}, applyDurations: new(metrics.Durations)}
	if err := m.Apply([]quorum.CommittedEntry{{Index: 7, Term: 3}}); err != nil {
		t.Fatal(err)
	}
	s, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var good bytes.Buffer
	if _, err := s.WriteTo(&good); err != nil {
		t.Fatal(err)
	}
	if c, err := m.Verify(bytes.NewReader(good.Bytes())); err != nil || c.Index != 7 {
		t.Errorf("%+v, %v", c, err)
	}
	const version = len("rollcall") // its position
	newer := bytes.Clone(good.Bytes())
	binary.BigEndian.PutUint32(newer[version:], 1000)
	damaged := bytes.Clone(good.Bytes())
	damaged[version+20] ^= 1
	for _, tt := range []struct {
		name  string
		b     []byte
		newer bool
	}{{"newer", newer, true}, {"damaged", damaged, false}} {
		_, verr := m.Verify(bytes.NewReader(tt.b))
		rerr := m.Restore(io.NopCloser(bytes.NewReader(tt.b)))
		for _, err := range []error{verr, rerr} {
			if err == nil || errors.Is(err, disk.ErrNewerFormat) != tt.newer {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
	}
}
