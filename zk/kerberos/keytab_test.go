package kerberos

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// A ticket is decrypted by the key of its version. If the version is 0, the newest key of the ticket's type is tried.
func TestKeyFor(t *testing.T) {
	other := Principal{"zookeeper/other", "EXAMPLE.COM"}
	entry := func(of Principal, id int32, short byte, long uint32, fill byte) []byte {
		k, _ := lookupType(id)
		return keytabEntryOf(of, id, short, long, bytes.Repeat([]byte{fill}, k.keySize))
	}
	hole := append([]byte{0xff, 0xff, 0xff, 0xfc}, "gone"...) // 4 bytes of a removed entry
	content := slices.Concat(
		[]byte{keytabMagic, keytabVersion}, entry(service, 18, 2, 0, 'b'), hole, entry(service, 18, 1, 257, 'c'), entry(service, 17, 0, 0, 'd'), entry(other, 18, 9, 9, 'e'),
		entry(service, 18, 1, 1, 'a'), keytabEntryOf(service, 23, 1, 1, make([]byte, 16)), []byte{0, 0, 0, 0},
	)
	keys, err := ParseKeytab(content)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		of        Principal
		id        int32
		version   int
		key       byte
		exact, ok bool
	}{
		{service, 18, 1, 'a', true, true},
		{service, 18, 2, 'b', true, true},
		{service, 18, 257, 'c', true, true},
		{service, 18, 0, 'c', true, true},
		{service, 18, 3, 'c', false, true},
		{service, 18, -1, 'c', false, true},
		{service, 17, 5, 'd', true, true},
		{service, 19, 1, 0, false, false},
		{service, 23, 1, 0, false, false},
		{other, 18, 9, 'e', true, true},
	} {
		k, exact, ok := keys.keyFor(tt.of, tt.id, tt.version)
		if exact != tt.exact || ok != tt.ok || ok && k.value[0] != tt.key {
			t.Errorf("%v: %v, %t, %t", tt, k, exact, ok)
		}
	}
	if err := keys.Check(service); err != nil {
		t.Error(err)
	}
}

func TestKeytabIsRejected(t *testing.T) {
	for _, tt := range []struct {
		content []byte
		text    string
	}{
		{nil, "no keytab of version 2"},
		{[]byte("\x05\x01"), "no keytab of version 2"},
		{[]byte("secret"), "no keytab of version 2"},
		{[]byte{5, 2}, "the keytab has no key of zookeeper/host.example.com@EXAMPLE.COM, and none with AES of any other principal"},
		{keytabOf(1)[:50], "the keytab ends within an entry"},
		{[]byte{5, 2, 0}, "the keytab ends within an entry"},
		{[]byte{5, 2, 0x7f, 0xff, 0xff, 0xff, 0}, "the keytab ends within an entry"},
		{[]byte{5, 2, 0x80, 0, 0, 0, 0}, "the keytab ends within an entry"},
		{[]byte{5, 2, 0, 0, 0, 2, 0xff, 0xff}, "an entry that is too short"},
		{append([]byte{5, 2}, keytabEntryOf(service, 18, 1, 1, []byte("secret"))...), "the keytab has a wrong key of zookeeper/host.example.com@EXAMPLE.COM: kerberos: a key of 6 bytes"},
		{append([]byte{5, 2}, keytabEntryOf(service, 23, 1, 1, []byte("secret"))...), "the keytab has only keys of rc4-hmac for zookeeper/host.example.com@EXAMPLE.COM; add one with AES"},
		{append([]byte{5, 2}, keytabEntryOf(Principal{"a/b", "R"}, 17, 1, 1, []byte("secretsecret1234"))...), "the keytab has no key of zookeeper/host.example.com@EXAMPLE.COM; it has those of a/b@R"},
		{make([]byte, MaxKeytab+1), "the keytab has over 1048576 bytes"},
	} {
		keys, err := ParseKeytab(tt.content)
		if err == nil {
			err = keys.Check(service)
		}
		if err == nil || !strings.HasPrefix(err.Error(), tt.text) && !strings.Contains(err.Error(), tt.text) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%.40q: %v, want %s", tt.content, err, tt.text)
		}
		if _, err := NewAcceptor(Config{Service: service, ReadKeytab: func() ([]byte, error) { return tt.content, nil }}); err == nil {
			t.Errorf("%.40q: an acceptor", tt.content)
		}
	}
}

func TestParsePrincipal(t *testing.T) {
	for text, want := range map[string]string{
		"zookeeper/h@R": "zookeeper/h@R", "zookeeper/h": "zookeeper/h@D", "zk@R": "zk@R", "*": "", "@R": "", "": "", "a@b@c": "", "a@": "",
	} {
		got, err := ParsePrincipal(text, "D")
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v; want %q", text, got, err, want)
		}
	}
	if _, err := ParsePrincipal("zookeeper/h", ""); err == nil || !strings.Contains(err.Error(), "has no realm") {
		t.Error(err)
	}
}

func TestParseConf(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Conf
		err  string
	}{
		{"", Conf{}, ""},
		{"[libdefaults]\n default_realm = A\n\tdefault_realm = B\r\nclockskew = 60\n[realms]\nclockskew=5", Conf{DefaultRealm: "A", ClockSkew: time.Minute}, ""},
		{"# default_realm = X\n; [libdefaults]\ninclude /a\n[ libdefaults ] \ndefault_realm=\"Q\"\nclockskew=2m", Conf{DefaultRealm: "Q", ClockSkew: 2 * time.Minute, HasIncludes: true}, ""},
		{"[realms]\n R = {\n default_realm = X\n }\nincludedir /etc/krb5.conf.d/", Conf{HasIncludes: true}, ""},
		{"[libdefaults]\nclockskew = 90s", Conf{ClockSkew: 90 * time.Second}, ""},
		{"[libdefaults]\n\nclockskew = 0", Conf{}, `line 3: clockskew="0": must be 1 to 3600 seconds`},
		{"[libdefaults]\nclockskew = 3601", Conf{}, "must be 1 to 3600 seconds"},
		{"[libdefaults]\nclockskew = x", Conf{}, "must be 1 to 3600 seconds"},
		{"[libdefaults]\nclockskew = -1", Conf{}, "must be 1 to 3600 seconds"},
		{strings.Repeat("#", MaxConf+1), Conf{}, "over 1048576 bytes"},
	} {
		got, err := ParseConf([]byte(tt.text))
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%.80q: %v, %v; want %v, %s", tt.text, got, err, tt.want, tt.err)
		}
	}
}

// No content makes the parser panic, and no entry is taken whose key has another size than its type.
func FuzzKeytab(f *testing.F) {
	f.Add(keytabOf(1))
	f.Add([]byte{5, 2, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0, 0, 2, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, content []byte) {
		keys, err := ParseKeytab(content)
		if err != nil {
			return
		}
		for _, e := range keys.entries {
			if len(e.key.value) != e.key.keySize || len(e.key.value) > len(content) {
				t.Errorf("a key of %d bytes for %s", len(e.key.value), e.key.name)
			}
		}
	})
}

func FuzzConf(f *testing.F) {
	f.Add([]byte("[libdefaults]\n default_realm = A\nclockskew = 60\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if c, err := ParseConf(content); err == nil && (c.ClockSkew < 0 || c.ClockSkew > MaxClockSkew || len(c.DefaultRealm) > len(content)) {
			t.Errorf("%v", c)
		}
	})
}
