package till

import "testing"

func TestHalf(t *testing.T) {
	if n := Half(8); n != 4 {
		t.Errorf("half of 8 is %d", n)
	}
}
