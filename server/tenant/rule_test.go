package tenant

import (
	"strings"
	"testing"
)

// Rules are read and written in one form.
func TestParseRule(t *testing.T) {
	for text, want := range map[string]string{
		"address requests=5": "",
		"  each   address 10.0.0.0/8  requests=5 bytes=64k sessions=3 watches=9": "each address 10.0.0.0/8 requests=5 bytes=65536 sessions=3 watches=9",
		"address 10.1.2.3/8 sessions=1":                                          "address 10.0.0.0/8 sessions=1",
		"address ::ffff:10.1.2.3 sessions=1":                                     "address 10.1.2.3 sessions=1",
		"address 2001:db8::/32 watches=1":                                        "",
		"identity sasl:bob@REALM requests=1":                                     "",
		"identity digest:bob:abc= bytes=1M":                                      "identity digest:bob:abc= bytes=1048576",
		"identity x509:CN=a, O=b requests=1":                                     "",
		"each identity requests=1":                                               "",
		"each identity sasl requests=1 watches=3":                                "",
		"subtree /kafka bytes=2G":                                                "subtree /kafka bytes=2147483648",
		"each subtree / requests=10000000":                                       "",
		"subtree /with blank/requests requests=1 bytes=18K":                      "subtree /with blank/requests requests=1 bytes=18432",
	} {
		r, err := ParseRule("name", text)
		if want == "" {
			want = text
		}
		if err != nil || r.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, r.String(), err, want)
		}
		if again, err := ParseRule("name", r.String()); err != nil || again != r {
			t.Errorf("%q: %+v is read back as %+v, %v", text, r, again, err)
		}
	}
}

// An error says what is wrong, and what is allowed.
func TestWrongRules(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "must begin with address, each address, identity SCHEME:ID",
		"each":                                  "must begin with address",
		"host 10.0.0.1 requests=1":              "must begin with address",
		"address":                               "there is no number; add at least one of requests=",
		"address 10.0.0.0/33 requests=1":        "an IP address or a network, such as",
		"address example.org requests=1":        "an IP address or a network, such as",
		"address requests=0":                    "requests must be 1 to 10000000; leave it out for no limit",
		"address requests=10000001":             "requests must be 1 to",
		"address requests=-1":                   "requests must be 1 to",
		"address sessions=many":                 "sessions must be 1 to",
		"address watches=2000000000":            "watches must be 1 to",
		"address bytes=17K":                     "bytes must be 18K to 1024G",
		"address bytes=9999999999G":             "bytes must be 18K to 1024G",
		"address bytes=K":                       "bytes must be 18K to 1024G",
		"address requests=1 requests=2":         "requests is there twice",
		"address request=1 requests=2":          "an IP address or a network",
		"identity bob requests=1":               "identity takes SCHEME:ID, such as sasl:bob",
		"identity requests=1":                   "identity takes SCHEME:ID",
		"identity ip:10.0.0.1 requests=1":       "use address",
		"each identity world requests=1":        "use address",
		"each identity sasl:bob requests=1":     "each identity takes a scheme and no id",
		"identity sasl:bob sessions=1":          "sessions can only be limited by address",
		"subtree requests=1":                    "subtree takes the path of a node, such as /kafka",
		"subtree kafka requests=1":              "subtree takes the path of a node",
		"subtree /kafka/ requests=1":            "subtree takes the path of a node",
		"subtree /kafka sessions=1":             "sessions can only be limited by address",
		"subtree /kafka watches=1":              "watches can only be limited by address or identity",
		"subtree /" + strings.Repeat("a", 1024): "at most 1024 are allowed",
	} {
		if r, err := ParseRule("name", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %q, %v; want an error with %q", text, r.String(), err, want)
		}
	}
	for _, name := range []string{"", "a.b", "a b", strings.Repeat("a", 65), "ü"} {
		if _, err := ParseRule(name, "address requests=1"); err == nil || !strings.Contains(err.Error(), "1 to 64 letters") {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}
