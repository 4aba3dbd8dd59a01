package admission

import "testing"

func TestMemoryFull(t *testing.T) {
	m := NewMemory(1000)
	for _, step := range []struct {
		used          int64
		changed, full bool
	}{
		{1000, false, false}, {1001, true, true}, {1001, false, true}, {1000, false, true}, {951, false, true}, {950, true, false}, {1000, false, false}, {5000, true, true}, {0, true, false},
	} {
		if changed := m.Note(step.used); changed != step.changed || m.Full() != step.full {
			t.Errorf("%d used: changed %t, full %t; want %t, %t", step.used, changed, m.Full(), step.changed, step.full)
		}
		if limit, used, _ := m.Figures(); limit != 1000 || used != step.used {
			t.Errorf("%d of %d, want %d of 1000", used, limit, step.used)
		}
	}
	if none := NewMemory(0); none.Full() {
		t.Error("no limit is exceeded")
	} else if limit, used, refused := none.Figures(); limit != 0 || used != 0 || refused != 0 {
		t.Errorf("without a limit: %d of %d, %d refused", used, limit, refused)
	}
}
