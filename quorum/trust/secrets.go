package trust

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"rollcall/internal/secretfile"
	"rollcall/internal/slowkey"
)

const (
	// maxSecrets is how many secrets a file may have: the present one and, during a rotation, the next.
	maxSecrets = 2
	// minSecretLength is the shortest secret, in bytes. Shorter ones could be guessed from one proof.
	minSecretLength = 16
	// maxSecretLength is the longest one; base64 of 32 random bytes has 44.
	maxSecretLength = 1024
	// maxSecretFile bounds what is read of the file. There is room for comments.
	maxSecretFile = 16 << 10

	// rereadDelay is how long after a change the file is read once more, and that reading counts: the first
	// one may have met a file that was being written.
	rereadDelay = 200 * time.Millisecond

	secretFileKey = "ensembleSecretFile" // names the file in the configuration
	howToMake     = "make one with: head -c 32 /dev/urandom | base64"
)

// secret is a secret that members share. It must never be printed.
type secret string

// String keeps the secret out of texts and logs.
func (secret) String() string { return "(a secret)" }

// GoString does the same for the format %#v.
func (secret) GoString() string { return "(a secret)" }

// keyPurpose keeps the keys of secrets apart from all others.
const keyPurpose = "rollcall secret of an ensemble, 1"

// proofKey returns the key with which the secret is proved. It takes about a tenth of a second when the secret is new in this process.
func (s secret) proofKey() slowkey.Key { return slowkey.Derive(keyPurpose, string(s)) }

// Secrets are the one or two secrets in a file, as they were when it was last read without an error.
type Secrets struct {
	path      string
	logger    *slog.Logger
	current   atomic.Pointer[[]secret]
	lastError string // why the file could not be used when it was last read; "": it could. Guard.Run owns it
}

// openSecrets reads a file for the first time.
func openSecrets(path string, log *slog.Logger) (*Secrets, error) {
	s := &Secrets{path: path, logger: log}
	list, exposed, err := readSecrets(path)
	if err != nil {
		return nil, err
	}
	secretfile.LogExposed(log, secretFileKey, path, exposed)
	s.current.Store(&list)
	return s, nil
}

// present returns the present secrets.
func (s *Secrets) present() []secret { return *s.current.Load() }

// contains reports whether a secret is one of the present ones.
func (s *Secrets) contains(one secret) bool { return slices.Contains(s.present(), one) }

// reload reads the file again and reports whether the secrets have changed. A file that cannot be
// used changes nothing, and its error is logged once. One goroutine may call it.
func (s *Secrets) reload() bool {
	list, exposed, err := readSecrets(s.path)
	if err != nil || !slices.Equal(list, s.present()) {
		time.Sleep(rereadDelay)
		list, exposed, err = readSecrets(s.path)
	}
	if err != nil {
		if err.Error() != s.lastError {
			s.logger.Error("the ensemble's secrets cannot be read again, so the former ones stay in use", "err", err)
		}
		s.lastError = err.Error()
		return false
	}
	s.lastError = ""
	if slices.Equal(list, s.present()) {
		return false
	}
	s.current.Store(&list)
	s.logger.Info("the ensemble's secrets were read again", "file", s.path, "secrets", len(list))
	secretfile.LogExposed(s.logger, secretFileKey, s.path, exposed)
	return true
}

// readSecrets reads a file of secrets. exposed says that others may read the file.
func readSecrets(path string) (list []secret, exposed string, err error) {
	f, err := secretfile.ReadFile(path, maxSecretFile)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; %s", err, howToMake)
	}
	if err == nil {
		list, err = parseSecrets(f.Text)
	}
	if err != nil {
		return nil, "", secretfile.NewFault(secretFileKey, path, err)
	}
	for _, s := range list {
		s.proofKey() // now, and not while a handshake waits
	}
	return list, f.ExposedWarning(), nil
}

// parseSecrets returns the secrets in the text of a file, which has one on a line. Blank lines and
// those that begin with # do not count. Its errors show nothing of a secret.
func parseSecrets(text []byte) (list []secret, err error) {
	if len(text) > maxSecretFile {
		return nil, fmt.Errorf("longer than %d bytes", maxSecretFile)
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		switch {
		case len(list) == maxSecrets:
			return nil, fmt.Errorf("line %d: more than %d secrets; during a rotation there are two, the present and the next", number, maxSecrets)
		case bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }):
			return nil, fmt.Errorf("line %d: a secret has visible characters of ASCII only; %s", number, howToMake)
		case len(line) < minSecretLength || len(line) > maxSecretLength:
			return nil, fmt.Errorf("line %d: a secret of %d bytes; allowed are %d to %d; %s", number, len(line), minSecretLength, maxSecretLength, howToMake)
		}
		list = append(list, secret(line))
	}
	if len(list) == 0 {
		return nil, errors.New("there is no secret in it; " + howToMake)
	}
	return list, nil
}
