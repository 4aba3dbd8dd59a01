package keystore

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"testing"
)

// Subject returns what Java 17 returns for the same certificates.
func TestSubject(t *testing.T) {
	for i, want := range []string{
		`CN=ann,OU=Roll\, call,O=Ex,C=CH`,
		`CN=bob+1.2.840.113549.1.9.1=#160f626f62406578616d706c652e636f6d,UID=bob,DC=com,DC=example`,
		`2.5.4.12=#0c024472,STREET=Main\; St \"x\",2.5.4.5=#13023132,CN=\ lead and trail\ \ `,
		`L=日本 a\#b,ST=Zürich,CN=\#hash \= plus\+ \<a\> back\\slash`,
		`CN=x/y,2.5.4.46=#130171,2.5.4.43=#0c0149,2.5.4.4=#0c0153,2.5.4.42=#0c0147,2.5.4.17=#0c0438303030`,
	} {
		block, _ := pem.Decode(file(t, fmt.Sprintf("subject%d.pem", i+1)))
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if got := JavaSubject(cert); got != want {
			t.Errorf("subject %d is\n%s\nwant\n%s", i+1, got, want)
		}
	}
}
