package znode

import (
	"testing"

	"rollcall/zk/jute"
)

func TestValidDN(t *testing.T) {
	for _, name := range []string{
		"CN=ann", "cn=ann,ou=x", "CN=ann, O=Ex, C=CH", `CN=a\,b,O="x,y"`, "CN=a+UID=7,DC=example;DC=org",
		"1.2.840.113549.1.9.1=#1603612e62", "OID.2.5.4.3=x", "EMAILADDRESS=a@b",
	} {
		if !validDN(name) {
			t.Errorf("%s is refused", name)
		}
	}
	for _, name := range []string{"", "ann", "CN", "CN=", "=ann", "CN=ann,", "CN=ann,,O=x", "XX=ann", "1=x", "1..2=x", "OID.=x", "CN=a,O"} {
		if validDN(name) {
			t.Errorf("%q is accepted", name)
		}
	}
}

// ACLs may name the subjects of certificates if the configuration allows it.
func TestX509InACLs(t *testing.T) {
	for _, tt := range []struct {
		id   string
		on   bool
		fine bool
	}{
		{"CN=ann,O=Ex", true, true},
		{"ann", true, false},
		{"CN=ann,O=Ex", false, false},
	} {
		a := aclTable{x509Enabled: tt.on}
		if _, code := a.resolveList(aclOf(31, "x509", tt.id), nil); (code == 0) != tt.fine {
			t.Errorf("%s, on %t: %v", tt.id, tt.on, code)
		}
	}
}

// A restored state still allows, or does not allow, that ACLs name the subjects of certificates.
func TestX509AfterRestore(t *testing.T) {
	w := newWorld(t)
	w.rule(Rules{X509: true})
	w.states = append(w.states, restored(t, encode(t, w.s().Snapshot())))
	k := w.connect()
	k.must(k.createACL("/a", 0, aclOf(31, "x509", "CN=ann,O=Ex")))
	if d := Diff(w.s(), w.states[1]); d != "" {
		t.Error(d)
	}
	w.rule(Rules{})
	if r := k.createACL("/b", 0, aclOf(31, "x509", "CN=ann,O=Ex")); r.Code != jute.InvalidACL {
		t.Errorf("%v", r.Code)
	}
}
