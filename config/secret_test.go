package config

import (
	"os"
	"strings"
	"testing"
)

// A secret in a file counts as one in its key does. Errors name the file and show nothing of its content.
func TestSecretFiles(t *testing.T) {
	const marker = "SECRET-MARKER"
	const path = "DigestAuthenticationProvider.superDigestPath=DIR/secret\n"
	allowed := "DIR/zoo.cfg:2: DigestAuthenticationProvider.superDigestPath=DIR/secret: "
	tests := []struct {
		name, file string
		mode       os.FileMode
		cfg        string
		want       string // the value
		err        string
		warning    string
	}{
		{name: "a line", file: "super:" + marker + "=\n", cfg: path, want: "super:" + marker + "="},
		{name: "no end of line", file: "super:" + marker, cfg: path, want: "super:" + marker},
		{name: "Windows", file: "super:" + marker + "\r\nmore\r\n", cfg: path, want: "super:" + marker},
		{name: "as a Java property", file: "super:" + marker, cfg: "zookeeper." + path, want: "super:" + marker},
		{name: "longest", file: "super:" + strings.Repeat("x", maxSecretBytes-6) + "\n", cfg: path, want: "super:" + strings.Repeat("x", maxSecretBytes-6)},
		{name: "too long", file: "super:" + strings.Repeat("x", maxSecretBytes-5) + "\n", cfg: path, err: allowed + "the first line of the file has over 4096 bytes; a secret is shorter"},
		{name: "empty", cfg: path, err: allowed + "the first line of the file is empty; write the secret there"},
		{name: "wrong kind", file: marker + "\n", cfg: path, err: allowed + "the first line of the file must be a value of DigestAuthenticationProvider.superDigest: <user>:<digest>"},
		{name: "another name", file: "admin:" + marker, cfg: path, want: "admin:" + marker},
		{name: "without the scheme", file: "super:" + marker, cfg: path + "DigestAuthenticationProvider.enabled=false\n", warning: "there is no super user with a password: DigestAuthenticationProvider.enabled is false"},
		{name: "readable by all", file: "super:" + marker, mode: 0o644, cfg: path, want: "super:" + marker, warning: "DigestAuthenticationProvider.superDigestPath: the file is open to others (mode 0644); chmod 600 it"},
		{name: "readable by the group", file: "super:" + marker, mode: 0o640, cfg: path, want: "super:" + marker},
		{name: "a directory", cfg: "DigestAuthenticationProvider.superDigestPath=DIR\n", err: "DIR/zoo.cfg:2: DigestAuthenticationProvider.superDigestPath=DIR: this is not a file (mode drwx"},
		{name: "no file", cfg: "DigestAuthenticationProvider.superDigestPath=DIR/none\n", err: "superDigestPath=DIR/none: no such file or directory; it must name a file that this user may read"},
		{name: "no path", cfg: "DigestAuthenticationProvider.superDigestPath=\n", err: "must be the path of a file with one line"},
		{
			name: "both", file: "super:" + marker, cfg: path + "DigestAuthenticationProvider.superDigest=super:other\n",
			err: "DIR/zoo.cfg:2: DigestAuthenticationProvider.superDigestPath, but DigestAuthenticationProvider.superDigest is set, too, in DIR/zoo.cfg:3; leave one of them out",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, at := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\n" + tt.cfg + "clientPort=1\n", "secret": tt.file})
			if tt.mode != 0 {
				if err := os.Chmod(at("DIR/secret"), tt.mode); err != nil {
					t.Fatal(err)
				}
			}
			r := Check(at("DIR/zoo.cfg"), nil, Flags{})
			got := ""
			for _, err := range r.Errors {
				got += err.Error()
			}
			if !strings.Contains(got, at(tt.err)) || (got == "") != (tt.err == "") || strings.Contains(got, marker) {
				t.Errorf("error %q, want %q", got, at(tt.err))
			}
			if got == "" && r.Config.SuperDigest != tt.want {
				t.Errorf("the value is %q, want %q", r.Config.SuperDigest, tt.want)
			}
			if !strings.Contains(texts(r.Warnings), tt.warning) || tt.warning == "" && strings.Contains(texts(r.Warnings), "open to others") {
				t.Errorf("warnings %s, want %q", texts(r.Warnings), tt.warning)
			}
			for _, k := range r.Config.Keys {
				if exposed := strings.Contains(tt.warning, "open to others") && k.Name == "DigestAuthenticationProvider.superDigestPath"; exposed != (k.Verdict == Dangerous) {
					t.Errorf("%s is %s", k.Name, k.Verdict)
				}
				if strings.Contains(k.Value+k.Reason, marker) {
					t.Errorf("%s shows %q, %q", k.Name, k.Value, k.Reason)
				}
			}
		})
	}
}

// Every key of a file names another key, which is secret.
func TestSecretFilesAreOfSecrets(t *testing.T) {
	for i := range keys {
		k := &keys[i]
		if k.kind.secretKey == "" {
			continue
		}
		if of := lookupKey(k.kind.secretKey); of == nil || of.name != k.kind.secretKey || !of.isSecret || k.name != of.name+"Path" || k.isSecret {
			t.Errorf("%s is the file of %s", k.name, k.kind.secretKey)
		}
	}
}
