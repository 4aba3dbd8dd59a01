package subtree

import (
	"slices"
	"strings"
	"testing"

	"rollcall/zk/jute"
)

// Lists are read and written in the form of ZooKeeper's tools. Ids may have colons and commas.
func TestACLTexts(t *testing.T) {
	for text, want := range map[string][]string{
		"world:anyone:cdrwa":                    {"world:anyone:cdrwa"},
		"world:anyone:awrdc":                    {"world:anyone:cdrwa"},
		"world:r":                               {"world:anyone:r"},
		"auth:cdrwa":                            {"auth::cdrwa"},
		"auth::r":                               {"auth::r"},
		"digest:u:hash=:rw,ip:10.0.0.0/8:r":     {"digest:u:hash=:rw", "ip:10.0.0.0/8:r"},
		"ip:fe80::1:r":                          {"ip:fe80::1:r"},
		"x509:CN=a,O=b:cdrwa,world:anyone:r":    {"x509:CN=a,O=b:cdrwa", "world:anyone:r"},
		"world:anyone:0":                        {"world:anyone:0"},
		"world:anyone:31":                       {"world:anyone:cdrwa"},
		"world:anyone:-1,digest:a:b:2147483647": {"world:anyone:-1", "digest:a:b:2147483647"},
	} {
		list, err := ParseACL(text)
		if got := formatACL(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                         "no colon after a scheme",
		"world":                    "no colon",
		":anyone:r":                "no colon",
		"digest:r":                 "the id or the permissions are missing",
		"world:anyone:":            "no permissions",
		"world:anyone:x":           `permissions "x"; must be letters of cdrwa`,
		"world:anyone:rr":          "each once",
		"world:anyone:r,":          `entry "": no colon`,
		"world:anyone:r,foo":       `entry "foo"`,
		"world:anyone:99999999999": "must be letters",
	} {
		list, err := ParseACL(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "such as world:anyone:cdrwa") {
			t.Errorf("%q: %v, %v, want %q", text, list, err, want)
		}
	}
}

// FuzzParseACL checks that what ParseACL accepts is written back with the same meaning.
func FuzzParseACL(f *testing.F) {
	for _, text := range []string{"world:anyone:cdrwa", "digest:u:h:r,ip:1.2.3.4:w", "x509:CN=a,O=b:cdrwa,world:r", "auth:cdrwa", "a:b:-7"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseACL(text)
		if err != nil {
			return
		}
		for i, entry := range formatACL(list) {
			again, err := parseEntry(entry)
			if err != nil || !jute.EqualACLs([]jute.ACL{again}, list[i:i+1]) {
				t.Errorf("%q: %q is read as %v, %v, want %v", text, entry, again, err, list[i])
			}
		}
	})
}
