package process

import "testing"

// A variable that is not set leaves the default. A number below the least one is rejected, and so is text that is not a
// number.
func TestSetting(t *testing.T) {
	const otherwise = 5
	for _, tt := range []struct {
		value string
		least int
		want  int
		ok    bool
	}{
		{"", 1, otherwise, true},
		{"0", 0, 0, true},
		{"0", 1, 0, false},
		{"7", 1, 7, true},
		{"-1", 0, 0, false},
		{"many", 0, 0, false},
	} {
		t.Setenv("ROLLCALL_TEST_NUMBER", tt.value)
		if n, err := parseSetting("ROLLCALL_TEST_NUMBER", tt.least, otherwise); n != tt.want || (err == nil) != tt.ok {
			t.Errorf("%q, at least %d: %d, %v; want %d, success %t", tt.value, tt.least, n, err, tt.want, tt.ok)
		}
	}
}
