package sasl

import (
	"fmt"
	"strings"
	"testing"
)

// A text without quotes consists of letters, digits and a few signs; bytes of other letters are taken as they are. Anything
// else needs double quotes, in which each character stands for itself or, after a backslash, for what Java makes of it.
func TestEachCharacterOfJAAS(t *testing.T) {
	escaped := map[byte]string{'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v"}
	for digit := byte('0'); digit <= '7'; digit++ {
		escaped[digit] = string(rune(digit - '0'))
	}
	password := func(text string) (string, error) {
		users, err := ParseJAAS([]byte("Server {\n"+module+" required user_bob="+text+";\n};"), "Server")
		return users["bob"], err
	}
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.$_-*"
	for i := byte('!'); i < 0x7f; i++ {
		c := string(i)
		if got, err := password(c + "x"); (err == nil) != strings.Contains(plain, c) || err == nil && got != c+"x" {
			t.Errorf("%s without quotes: %q, %v", c, got, err)
		}
		if c != `"` && c != `\` {
			if got, err := password(fmt.Sprintf(`"%sx"`, c)); err != nil || got != c+"x" {
				t.Errorf("%s in quotes: %q, %v", c, got, err)
			}
		}
		want, special := escaped[i]
		if !special {
			want = c
		}
		if got, err := password(fmt.Sprintf(`"\%sx"`, c)); err != nil || got != want+"x" {
			t.Errorf(`\%s in quotes: %q, %v, want %q`, c, got, err, want+"x")
		}
	}
}
