package shell

import (
	"strings"
	"testing"
)

// Malformed entries of an access control list are reported one by one. A list of commas has no entries, and a
// list without a text has one that makes no sense: so does zkCli.sh.
func TestACLsThatMakeNoSense(t *testing.T) {
	const form, invalid = " does not have the form scheme:id:perm\n", "Acl is not valid : null\n"
	for text, want := range map[string]string{
		`,`:                invalid,
		`,,`:               invalid,
		`""`:               form + invalid,
		`x`:                "x" + form + invalid,
		`x:y`:              "x:y" + form + invalid,
		`x,world:anyone:r`: "x" + form,
		`world:anyone:r,`:  "",
		`world:anyone:rz`:  "Unknown perm type: z\n",
	} {
		got := runLines(t, Config{}, "create /acl x", "setAcl /acl "+text, "delete /acl")
		if told := strings.TrimPrefix(got.err, "Created /acl\n"); told != want {
			t.Errorf("%s: %q, want %q", text, told, want)
		}
	}
}
