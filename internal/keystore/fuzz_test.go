package keystore

import (
	"os"
	"path/filepath"
	"testing"
)

// seed gives f the files that match a pattern.
func seed(f *testing.F, patterns ...string) {
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(names) == 0 {
			f.Fatalf("%s: %d files, %v", pattern, len(names), err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
}

// No bytes make a reader panic or hang; a store that it reads can be used or is refused.
func fuzz(f *testing.F, read func([]byte, string) (storeContents, error)) {
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := readRecoveringPanics(read, data, "secret")
		if err != nil {
			return
		}
		for _, key := range h.keys {
			h.leafOf(key)
		}
		for _, cert := range h.certs {
			h.chainFrom(cert)
		}
		_, _ = h.trustPool()
	})
}

func FuzzPEM(f *testing.F) {
	seed(f, "*.pem")
	fuzz(f, readPEM)
}

func FuzzJava(f *testing.F) {
	seed(f, "*.p12", "*.jks")
	fuzz(f, readJKSOrPKCS12)
}

func FuzzCRLs(f *testing.F) {
	seed(f, "*revoked*")
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = parseCRLs(data) })
}
