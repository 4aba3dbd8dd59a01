package jute

import (
	"strings"
	"testing"
)

func TestParseSessionID(t *testing.T) {
	for text, want := range map[string]SessionID{
		"0x1000012f99a0001": 0x1000012f99a0001, "0x1": 1, "0xFf": 255, "0xffffffffffffffff": -1, "0x000000000000000a": 10,
	} {
		if id, err := ParseSessionID(text); err != nil || id != want {
			t.Errorf("ParseSessionID(%q) = %v, %v, want %v", text, id, err, want)
		}
	}
	const form = "is not the id of a session: that is 0x and up to 16 hexadecimal digits, such as 0x1000012f99a0001"
	for text, want := range map[string]string{
		"": "", "0x": "", "0x0": "", "0X1": "", "0x+1": "", "0x1_0": "", "1g": "", "0xg": "", "0": "", "0x10000000000000000": "", "0x00000000000000001": "",
		"72057675534958593": "; if this number is decimal, that is 0x1000012f99a0001", "-1": "; if this number is decimal, that is 0xffffffffffffffff",
	} {
		if id, err := ParseSessionID(text); err == nil || !strings.HasSuffix(err.Error(), `"`+text+`" `+form+want) {
			t.Errorf("ParseSessionID(%q) = %v, %v, want %s", text, id, err, want)
		}
	}
}
