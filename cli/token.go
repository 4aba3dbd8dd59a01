package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"rollcall/internal/secretfile"
)

// readToken also returns the owner of the file, and a warning if other users may read it and that is no reason to reject it. If the
// file is a terminal, it prompts for the token, which is not echoed.
func (l *EnsembleFlags) readToken(name string) (token string, owner int, exposed string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", 0, "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return "", 0, "", err
	}
	file := secretfile.Describe(f, info)
	if !info.Mode().IsRegular() {
		if l.typedToken == "" {
			l.typedToken, err = l.readTypedToken(name, f)
		}
		return l.typedToken, file.Owner, "", err
	}
	if err := file.RejectExposed(); err != nil {
		return "", 0, "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken))
	if err == nil {
		token, err = parseToken(name, text)
	}
	return token, file.Owner, file.ExposedWarning(), err
}

// readTypedToken reads the token from a terminal, without echo, or from a pipe.
func (l *EnsembleFlags) readTypedToken(name string, f *os.File) (string, error) {
	read := func() ([]byte, error) { return io.ReadAll(io.LimitReader(f, maxToken)) }
	if terminal := int(f.Fd()); term.IsTerminal(terminal) {
		_, _ = fmt.Fprint(l.streams.Err, "Token: ")           // the output may be a file
		defer func() { _, _ = fmt.Fprintln(l.streams.Err) }() // the end of the line was not echoed either
		read = func() ([]byte, error) { return term.ReadPassword(terminal) }
	}
	text, err := read()
	if err != nil {
		return "", err
	}
	return parseToken(name, text)
}

func parseToken(name string, text []byte) (token string, err error) {
	token = strings.TrimSpace(string(text))
	switch {
	case token == "":
		return "", fmt.Errorf("%s is empty", name)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) || len(text) == maxToken:
		return "", fmt.Errorf("%s does not hold one token of visible characters", name)
	}
	return token, nil
}
