package znode

import (
	"slices"
	"strings"
)

// validDN reports whether text is a distinguished name in the form of a certificate's subject (RFC 2253):
// parts such as CN=name, joined by commas, semicolons or plus signs. A value may be quoted, and a backslash
// may escape any character.
func validDN(text string) bool {
	for more := true; more; {
		var part string
		if part, text, more = cutAttribute(text); !validAttribute(part) {
			return false
		}
	}
	return true
}

// cutAttribute splits text at the first separator that is neither quoted nor escaped.
func cutAttribute(text string) (part, rest string, more bool) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ';' || c == '+'):
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

func validAttribute(part string) bool {
	key, value, ok := strings.Cut(part, "=")
	key = strings.ToUpper(strings.TrimSpace(key))
	return ok && strings.TrimSpace(value) != "" &&
		(slices.Contains(javaAttributes, key) || validOID(strings.TrimPrefix(key, "OID.")))
}

// javaAttributes are the names that Java knows. Existing lists were written by ZooKeeper's servers, which run
// on Java.
var javaAttributes = []string{
	"C", "CN", "DC", "DNQ", "DNQUALIFIER", "EMAIL", "EMAILADDRESS", "GENERATION", "GIVENNAME", "INITIALS", "IP",
	"L", "O", "OU", "S", "SERIALNUMBER", "ST", "STREET", "SURNAME", "T", "UID",
}

// validOID reports whether text is at least two numbers joined by dots.
func validOID(text string) bool {
	numbers := strings.Split(text, ".")
	for _, n := range numbers {
		if n == "" || strings.Trim(n, "0123456789") != "" {
			return false
		}
	}
	return len(numbers) > 1
}
