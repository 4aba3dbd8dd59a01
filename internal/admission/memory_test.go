package admission

import "testing"

func TestMemoryFull(t *testing.T) {
	m := NewMemoryLimiter(1000)
	for _, step := range []struct {
		used          int64
		changed, full bool
	}{
		{1000, false, false}, {1001, true, true}, {1001, false, true}, {1000, false, true}, {951, false, true}, {950, true, false}, {1000, false, false}, {5000, true, true}, {0, true, false},
	} {
		if changed := m.SetUsed(step.used); changed != step.changed || m.IsFull() != step.full {
			t.Errorf("%d used: changed %t, full %t; want %t, %t", step.used, changed, m.IsFull(), step.changed, step.full)
		}
		if limit, used, _ := m.Usage(); limit != 1000 || used != step.used {
			t.Errorf("%d of %d, want %d of 1000", used, limit, step.used)
		}
	}
	if none := NewMemoryLimiter(0); none.IsFull() {
		t.Error("no limit is exceeded")
	} else if limit, used, refused := none.Usage(); limit != 0 || used != 0 || refused != 0 {
		t.Errorf("without a limit: %d of %d, %d refused", used, limit, refused)
	}
}
