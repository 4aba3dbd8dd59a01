package screentext

import "testing"

func TestEscape(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"ASCII", `a\x1b "<b>"`, `a\x1b "<b>"`},
		{"a sequence that colours", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"a line break", "a\nb\tc", `a\x0ab\x09c`},
		{"bidirectional controls", "a\u202eb", `a\u202eb`},
		{"a control character of Latin-1", "\u009b31m", `\u009b31m`},
		{"a tag character", "\U000e0041", `\U000e0041`},
		{"invalid UTF-8", "a\xffb", `a\xffb`},
		{"letters of other scripts", "梨 é", "梨 é"},
		{"the replacement character itself", "\ufffd", "\ufffd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Escape(tt.text); got != tt.want {
				t.Errorf("Escape(%q) = %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func TestColumns(t *testing.T) {
	tests := []struct {
		text string
		want int
		cut  string // to 3 columns
	}{
		{"", 0, ""},
		{"abcd", 4, "abc"},
		{"梨梨", 4, "梨"}, // the second one would take a fourth column
		{"e\u0301e\u0301e\u0301e", 4, "e\u0301e\u0301e\u0301"},
	}
	for _, tt := range tests {
		if got, cut := Columns(tt.text), Truncate(tt.text, 3); got != tt.want || cut != tt.cut {
			t.Errorf("%q: %d columns, %q in 3, want %d, %q", tt.text, got, cut, tt.want, tt.cut)
		}
	}
}
