package digest

import (
	"encoding/base64"
	"strings"
	"testing"
)

// measured is the output of DigestAuthenticationProvider of Debian's ZooKeeper 3.8.0 with Java 17 for super:secret.
var measured = map[string]string{
	"SHA1":        "lK75jTNcA+U9vtVEw5vB51mj/w4=",
	"SHA-1":       "lK75jTNcA+U9vtVEw5vB51mj/w4=",
	"SHA":         "lK75jTNcA+U9vtVEw5vB51mj/w4=",
	"sha1":        "lK75jTNcA+U9vtVEw5vB51mj/w4=",
	"SHA256":      "WTA5ucCHTdJq645xIMibj8HviTPeB5mMuJ4/+v1dIEw=",
	"SHA-256":     "WTA5ucCHTdJq645xIMibj8HviTPeB5mMuJ4/+v1dIEw=",
	"SHA-224":     "SLmP5pzv7J/lzB7FLtFE6OUZQ/8aiqll5AYE4w==",
	"SHA-384":     "yaR4GNq//Zm1FIAZgRDJRLsjqeAhcFB1gCgPuP6H7HvhX1mS/VXzN0yzopiOx2BJ",
	"SHA-512":     "YCUumaodxrQ8ju8rJ0IaMlm8XX/1KyZEsjkowYsnA9bsE7LNCzc8Manpy55Ds+mDeMOYNh9+komaD5MRpOIkHg==",
	"SHA512":      "YCUumaodxrQ8ju8rJ0IaMlm8XX/1KyZEsjkowYsnA9bsE7LNCzc8Manpy55Ds+mDeMOYNh9+komaD5MRpOIkHg==",
	"SHA-512/256": "KBy0TIF51hD+Dr4wcFk0avm0bSypEbyLoGAgI9Pc2WA=",
	"SHA-512/224": "C+D1Ck+MJyQXmPzio8wNhK2kCKaXn/0Og08zzA==",
	"SHA3-224":    "6RFSMMHf4EyJt7Wtdfr+De0N7vX+wbBfdo4QoA==",
	"SHA3-256":    "WC0fcBtN15KqFfwpcvg0TG3tZUPFtDZkMpN7SZ6bt4g=",
	"SHA3-384":    "w66s+uAgwmP2PeHOLHcf0PprxANnxqPqLv2uJ954u0H2PSXUzK4UkZIC6+Kip1p2",
	"SHA3-512":    "aZ/+VdHwC0eYFCDZP6jKlvGMuTK0OrbD2+LzIwh1kO6QH9XyQD9WRWfcFLrcv8gfQLI2xxJzcM7b8i13wy3Lbg==",
}

// Every algorithm makes the digests that ZooKeeper makes.
func TestAsZooKeeper(t *testing.T) {
	seen := map[Algorithm]bool{}
	for name, want := range measured {
		a, err := ParseAlgorithm(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		seen[a] = true
		if got := a.IdentityOf("super:secret"); got != "super:"+want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		raw, err := base64.StdEncoding.DecodeString(want)
		if err != nil || len(raw) != a.HashSize() || !a.HasHashSize("super:"+want) || a.HasHashSize("super:"+want+"AAAA") ||
			a.HasHashSize("super:!") {
			t.Errorf("%s: a hash has %d bytes", name, a.HashSize())
		}
		if again, err := ParseAlgorithm(a.String()); err != nil || again != a {
			t.Errorf("%v is read as %v, %v", a, again, err)
		}
	}
	if len(seen) != len(algorithms) {
		t.Errorf("%d algorithms, of which %d were tested", len(algorithms), len(seen))
	}
	for _, name := range []string{"", "MD5", "MD2", "SHA-3", "SHA-1024", "SHA1 "} {
		if _, err := ParseAlgorithm(name); err == nil || !strings.Contains(err.Error(), "must be SHA1, SHA-224, ") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got := Algorithm(0).IdentityOf("nobody"); !strings.HasPrefix(got, "nobody:") {
		t.Error(got)
	}
	if got := Algorithm(200).String(); got != "alg(200)" {
		t.Error(got)
	}
}

// A fingerprint is sha256sum's output for the scheme and the identity, as docs/audit.md says.
func TestFingerprint(t *testing.T) {
	if got := Fingerprint(Algorithm(0).IdentityOf("super:secret")); got != "79fd7e16" {
		t.Error(got)
	}
}
