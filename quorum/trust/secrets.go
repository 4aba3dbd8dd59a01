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
	"rollcall/zk/sasl"
)

const (
	// maxSecrets limits the secrets of a file: the present one and, during a rotation, the next.
	maxSecrets = 2
	// minSecretLength is the minimum length of a secret in bytes. A shorter one could be guessed from one proof.
	minSecretLength = 16
	// maxSecretLength is the maximum length of a secret in bytes; base64 of 32 random bytes has 44.
	maxSecretLength = 1024
	// maxSecretFile limits the file in bytes. It leaves space for comments.
	maxSecretFile = 16 << 10

	// rereadDelay is the delay before a changed file is read once more. Only the second read counts, because the
	// first one may have met a file that was being written.
	rereadDelay = 200 * time.Millisecond

	secretFileKey = "ensembleSecretFile" // names the file in the configuration
	howToMake     = "make one with: head -c 32 /dev/urandom | base64"
)

// secret is a secret that members share. It must never be printed.
type secret string

// String hides the secret in texts and logs.
func (secret) String() string { return "(a secret)" }

// GoString hides it in the format %#v.
func (secret) GoString() string { return "(a secret)" }

// keyPurpose separates the keys of secrets from all other keys.
const keyPurpose = "rollcall secret of an ensemble, 1"

// proofKey returns the key that proves the secret. It takes about a tenth of a second for a secret that is new in
// this process.
func (s secret) proofKey() slowkey.Key { return slowkey.Derive(keyPurpose, string(s)) }

// secretSource is a file with secrets, or users that were given in its place.
type secretSource struct {
	key, path  string // of the configuration; "": there are no secrets. If users are given, path is their variable
	given      *MemberUsers
	maxBytes   int
	parse      func(text []byte) ([]secret, error) // its errors never contain a secret
	weaknessOf func(text []byte) string            // a warning, or ""; nil: there is none
	isOurs     bool                                // ZooKeeper has no such file, so it must not be open to others
}

// secretSource returns the source of the secrets.
func (s Settings) secretSource() secretSource {
	if given := s.MemberLogin.Given; given != nil {
		return secretSource{key: "quorum.auth.enableSasl", path: given.From, given: given}
	}
	if l := s.MemberLogin; l.File != "" {
		return secretSource{key: jaasFileKey, path: l.File, maxBytes: sasl.MaxJAASBytes, parse: l.parseSecrets, weaknessOf: l.weaknessOf}
	}
	return secretSource{key: secretFileKey, path: s.SecretFile, maxBytes: maxSecretFile, parse: parseSecrets, isOurs: true}
}

// Secrets holds the one or two secrets of a file, as of the last successful read.
type Secrets struct {
	source    secretSource
	logger    *slog.Logger
	current   atomic.Pointer[[]secret]
	lastError string // why the file could not be used when it was last read; "": it could. Guard.Run owns it
}

func openSecrets(from secretSource, log *slog.Logger) (*Secrets, error) {
	s := &Secrets{source: from, logger: log}
	list, warnings, err := from.read()
	if err != nil {
		return nil, err
	}
	s.logWarnings(warnings)
	s.current.Store(&list)
	return s, nil
}

func (s *Secrets) logWarnings(warnings []string) {
	for _, w := range warnings {
		s.logger.Warn("a file with secrets is not as safe as it could be", "key", s.source.key, "file", s.source.path, "reason", w)
	}
}

func (s *Secrets) currentSecrets() []secret { return *s.current.Load() }

func (s *Secrets) contains(one secret) bool { return slices.Contains(s.currentSecrets(), one) }

// reload reads the file again and reports whether the secrets have changed. A file that cannot be used changes
// nothing, and its error is logged once. Only one goroutine may call reload.
func (s *Secrets) reload() bool {
	list, warnings, err := s.source.read()
	if err != nil || !slices.Equal(list, s.currentSecrets()) {
		time.Sleep(rereadDelay)
		list, warnings, err = s.source.read()
	}
	if err != nil {
		if err.Error() != s.lastError {
			s.logger.Error("the ensemble's secrets cannot be reloaded, so the previous ones stay in use", "err", err)
		}
		s.lastError = err.Error()
		return false
	}
	s.lastError = ""
	if slices.Equal(list, s.currentSecrets()) {
		return false
	}
	s.current.Store(&list)
	s.logger.Info("the ensemble's secrets were reloaded", "file", s.source.path, "secrets", len(list))
	s.logWarnings(warnings)
	return true
}

// read reads the secrets, and what is wrong with the file although it can be used.
func (from secretSource) read() (list []secret, warnings []string, err error) {
	if from.given != nil {
		return from.readGiven()
	}
	f, err := secretfile.ReadTrustedFile(from.path, from.maxBytes)
	if errors.Is(err, os.ErrNotExist) && from.isOurs {
		err = fmt.Errorf("%w; %s", err, howToMake)
	}
	if err == nil && from.isOurs {
		err = f.RejectExposed()
	}
	if err == nil {
		list, err = from.parse(f.Text)
	}
	if err != nil {
		return nil, nil, secretfile.WrapFault(from.key, from.path, err)
	}
	for _, s := range list {
		s.proofKey() // now, and not while a handshake waits
	}
	if exposed := f.ExposedWarning(); exposed != "" {
		warnings = append(warnings, exposed)
	}
	if from.weaknessOf != nil {
		if weakness := from.weaknessOf(f.Text); weakness != "" {
			warnings = append(warnings, weakness)
		}
	}
	return list, warnings, nil
}

// readGiven returns the secret of the users that were given, and what is wrong with it.
func (from secretSource) readGiven() (list []secret, warnings []string, err error) {
	if err := from.given.Check(); err != nil {
		return nil, nil, err
	}
	list = from.given.secrets()
	list[0].proofKey()
	if weakness := from.given.weakness(from.path); weakness != "" {
		warnings = append(warnings, weakness)
	}
	return list, warnings, nil
}

// parseSecrets parses a file with one secret per line. Blank lines and lines that begin with # are skipped. Its
// errors never contain a secret.
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
			return nil, fmt.Errorf("line %d: more than %d secrets; during a rotation there are two, the present and the next",
				number, maxSecrets)
		case bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }):
			return nil, fmt.Errorf("line %d: a secret has visible characters of ASCII only; %s", number, howToMake)
		case len(line) < minSecretLength || len(line) > maxSecretLength:
			return nil, fmt.Errorf("line %d: a secret of %d bytes; must have %d to %d; %s", number, len(line), minSecretLength,
				maxSecretLength, howToMake)
		}
		list = append(list, secret(line))
	}
	if len(list) == 0 {
		return nil, errors.New("there is no secret in it; " + howToMake)
	}
	return list, nil
}
