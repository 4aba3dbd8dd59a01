package config

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"rollcall/internal/secretfile"
)

// maxSecretBytes limits the first line of a file with a secret. A wrong path may name a file of any length.
const maxSecretBytes = 4 << 10

// secretFile takes the path of a file whose first line is the value of another key, of the kind value. Errors and
// reports never show the line.
func secretFile(of string, value kind) kind {
	return kind{
		allowed:   "the path of a file with one line",
		secretKey: of,
		parse: func(d *rawConfig, s setting) error {
			if s.value == "" || strings.ContainsRune(s.value, 0) {
				return errAllowed
			}
			secret, exposed, err := readSecret(s.value)
			if err != nil {
				return err
			}
			d.warnReadable(s.key, exposed)
			err = value.parse(d, setting{key: of, value: secret, where: s.where})
			if errors.Is(err, errAllowed) {
				return fmt.Errorf("the first line of the file must be a value of %s: %s", of, value.allowed)
			}
			return err
		},
	}
}

// readSecret returns the first line of a file, without its end. exposed is a warning that other users can read the
// file, or "".
func readSecret(path string) (line, exposed string, err error) {
	f, err := secretfile.ReadTrustedFile(path, maxSecretBytes)
	if err != nil {
		return "", "", err
	}
	line, _, _ = strings.Cut(string(f.Text), "\n")
	line = strings.TrimSuffix(line, "\r")
	switch {
	case line == "":
		return "", "", errors.New("the first line of the file is empty; write the secret there")
	case len(line) > maxSecretBytes:
		return "", "", fmt.Errorf("the first line of the file has over %d bytes; a secret is shorter", maxSecretBytes)
	}
	return line, f.ExposedWarning(), nil
}

// warnReadable warns that other users can read key's file, unless exposed is "".
func (d *rawConfig) warnReadable(key, exposed string) {
	if exposed == "" {
		return
	}
	d.readableFiles[key] = exposed
	d.addWarning(d.whereSet(key), "%s: %s", key, exposed)
}

// checkSecretSources returns an error if a secret is set both by its key and by a file.
func (d *rawConfig) checkSecretSources() error {
	for i := range keys {
		k := &keys[i]
		if k.kind.secretKey == "" || d.setIn[k.name] == "" || d.setIn[k.kind.secretKey] == "" {
			continue
		}
		return fmt.Errorf("%s: %s, but %s is set, too, in %s; leave one of them out", d.whereSet(k.name), k.name,
			k.kind.secretKey, d.whereSet(k.kind.secretKey))
	}
	return nil
}

// checkSuperDigest checks that the super user's digest fits the algorithm. Without the scheme digest there is no super
// user with a password.
func (d *rawConfig) checkSuperDigest() error {
	const key = "DigestAuthenticationProvider.superDigest"
	where := cmp.Or(d.setIn[key], d.setIn[key+"Path"])
	switch {
	case d.config.SuperDigest == "":
	case d.config.NoDigest:
		d.addWarning(where, "there is no super user with a password: DigestAuthenticationProvider.enabled is false")
		d.config.SuperDigest = ""
	case !d.config.Digest.HasHashSize(d.config.SuperDigest):
		d.addWarning(where, "the digest of the super user is no hash of %v, so nobody can be super; "+
			"DigestAuthenticationProvider.digestAlg must name the algorithm that has made it", d.config.Digest)
	}
	return nil
}
