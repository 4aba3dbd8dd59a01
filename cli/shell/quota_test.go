package shell

import "testing"

func TestAmounts(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"count=2,bytes=10=;byteHardLimit=30;countHardLimit=6", "count=2,bytes=10=;byteHardLimit=30;countHardLimit=6"},
		{"count=3,bytes=2", "count=3,bytes=2"},
		{"bytes=2", "count=-1,bytes=2"},
		{"", "count=-1,bytes=-1"},
		{"count=x,bytes=99999999999999999999", "count=-1,bytes=-1"},
		{"count=1,bytes=2,other=5", "count=1,bytes=2=;other=5"},
		{"=;=;,,", "count=-1,bytes=-1=;=-1"},
	} {
		if got := parseAmounts([]byte(tt.text)).String(); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
	if got := unlimitedQuota().String(); got != "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=-1" {
		t.Errorf("no limits: %s", got)
	}
}
