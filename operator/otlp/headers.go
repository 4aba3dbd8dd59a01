package otlp

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"

	"rollcall/internal/secretfile"
)

const (
	// maxHeadersFile limits the file with headers, in bytes. A token is far shorter.
	maxHeadersFile = 16 << 10
	maxHeaders     = 16
)

// headersKey is the configuration key of the file.
const headersKey = "otlp.headersFile"

// header is one header of every request.
type header struct{ name, value string }

// readHeaders returns the headers in a file, one on a line as in HTTP. Empty lines, and those that begin with #, are left
// out. Without a path there are none. No error shows the content: it is a *secretfile.Fault.
func readHeaders(path string) ([]header, error) {
	if path == "" {
		return nil, nil
	}
	f, err := secretfile.ReadTrustedFile(path, maxHeadersFile)
	if err == nil {
		err = f.RejectExposed()
	}
	if err != nil {
		return nil, secretfile.WrapFault(headersKey, path, err)
	}
	headers, err := parseHeaders(f.Text)
	return headers, secretfile.WrapFault(headersKey, path, err)
}

// CheckHeaders reads the file with headers as New does, and returns its fault.
func (s *Settings) CheckHeaders() (faults []*secretfile.Fault) {
	_, err := readHeaders(s.HeadersFile)
	if fault := (*secretfile.Fault)(nil); errors.As(err, &fault) {
		faults = append(faults, fault)
	}
	return faults
}

func parseHeaders(text []byte) (headers []header, err error) {
	if len(text) > maxHeadersFile {
		return nil, fmt.Errorf("the file has over %d bytes; it may have up to %d headers", maxHeadersFile, maxHeaders)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
			return nil, fmt.Errorf("line %d is no header; it must be a name, a colon and a value, such as Authorization: Bearer TOKEN", number)
		case isOwnHeader(name):
			return nil, fmt.Errorf("line %d: the header %s belongs to the request itself; remove the line", number, name)
		case len(headers) == maxHeaders:
			return nil, fmt.Errorf("line %d: there are over %d headers; remove some", number, maxHeaders)
		}
		headers = append(headers, header{name, value})
	}
	return headers, nil
}

// isOwnHeader reports whether a header frames or describes the body, which the sender does.
func isOwnHeader(name string) bool {
	for _, own := range []string{"Host", "Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Connection", "Trailer"} {
		if strings.EqualFold(name, own) {
			return true
		}
	}
	return false
}
