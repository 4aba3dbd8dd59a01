package keystore

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"strings"
	"unicode/utf16"
)

// shortNames are the attributes of a name that have a word in RFC 2253. Java writes all others as numbers.
var shortNames = map[string]string{
	"2.5.4.3": "CN", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.6": "C",
	"2.5.4.9":                    "STREET",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// attribute is one part of a name. The value is kept as it is in the certificate.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// attributeSET is the attributes of one step of a name. asn1 recognizes a SET by the end of the type's name.
type attributeSET []attribute

// JavaSubject returns the subject of a certificate as Java's X500Principal.getName writes it, because ACLs name
// subjects so: as in RFC 2253, the last step first. (Go's own text differs: it does not know DC and UID,
// writes a word for some attributes that have none there, and takes the steps of a name apart.)
func JavaSubject(cert *x509.Certificate) string {
	var steps []attributeSET
	if unmarshal(cert.RawSubject, &steps) != nil {
		return cert.Subject.String() // Go has parsed it, so this does not happen
	}
	var b strings.Builder
	for i := len(steps) - 1; i >= 0; i-- {
		for j, a := range steps[i] {
			switch {
			case j > 0:
				b.WriteByte('+')
			case i < len(steps)-1:
				b.WriteByte(',')
			}
			a.write(&b)
		}
	}
	return b.String()
}

func (a attribute) write(b *strings.Builder) {
	name, short := shortNames[a.Type.String()]
	text, isText := textOf(a.Value)
	if !short || !isText {
		if !short {
			name = a.Type.String()
		}
		b.WriteString(name + "=#" + hex.EncodeToString(a.Value.FullBytes))
		return
	}
	b.WriteString(name + "=")
	writeEscaped(b, text)
}

// bmpString is the tag of a text with two bytes for each character.
const bmpString = 30

// textOf returns the text of a value, and whether it is one.
func textOf(v asn1.RawValue) (string, bool) {
	if v.Class != asn1.ClassUniversal {
		return "", false
	}
	switch v.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String:
		return strings.ToValidUTF8(string(v.Bytes), "\ufffd"), true
	case asn1.TagT61String, asn1.TagGeneralString:
		return latin1(v.Bytes), true
	case bmpString:
		units := make([]uint16, len(v.Bytes)/2)
		for i := range units {
			units[i] = uint16(v.Bytes[2*i])<<8 | uint16(v.Bytes[2*i+1])
		}
		return string(utf16.Decode(units)), true
	}
	return "", false
}

func latin1(b []byte) string {
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return string(runes)
}

// writeEscaped writes a text with the separators of a name escaped.
func writeEscaped(b *strings.Builder, text string) {
	leading, end := len(text)-len(strings.TrimLeft(text, " ")), len(strings.TrimRight(text, " "))
	for i, r := range text {
		if strings.ContainsRune(`,=+<>#;"\`, r) || r == ' ' && (i < leading || i >= end) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
}
