package location

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"rollcall/internal/secretfile"
)

const (
	// maxCredentialsFile limits the file with credentials, in bytes.
	maxCredentialsFile = 16 << 10
	// credentialsAge is the time after which the file is read again, so that new keys count without a restart.
	credentialsAge = time.Minute
)

// CredentialsKey is the configuration key of the file with credentials.
const CredentialsKey = "archive.credentialsFile"

// fileCredentials is a credentials.Provider that reads a file in the form of Amazon's tools. It reads it again after credentialsAge.
type fileCredentials struct {
	path string
	read time.Time
}

// RetrieveWithCredContext implements credentials.Provider.
func (f *fileCredentials) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	v, err := readCredentials(f.path)
	if err == nil {
		f.read = time.Now()
	}
	return v, err
}

// Retrieve implements credentials.Provider.
func (f *fileCredentials) Retrieve() (credentials.Value, error) {
	return f.RetrieveWithCredContext(nil)
}

// IsExpired implements credentials.Provider.
func (f *fileCredentials) IsExpired() bool { return time.Since(f.read) > credentialsAge }

// readCredentials reads a file that no other user can read. No error shows its content: it is a *secretfile.Fault.
func readCredentials(path string) (v credentials.Value, err error) {
	f, err := secretfile.ReadTrustedFile(path, maxCredentialsFile)
	if err == nil {
		err = f.RejectExposed()
	}
	if err != nil {
		return v, secretfile.WrapFault(CredentialsKey, path, err)
	}
	v, err = parseCredentials(string(f.Text))
	return v, secretfile.WrapFault(CredentialsKey, path, err)
}

// errCredentialLines is the error for a file without the two lines that it needs.
var errCredentialLines = errors.New("the file must have a line aws_access_key_id=KEY and a line aws_secret_access_key=SECRET, and may have " +
	"aws_session_token=TOKEN and, in front, [default]")

func parseCredentials(text string) (v credentials.Value, err error) {
	if len(text) > maxCredentialsFile {
		return v, fmt.Errorf("the file has over %d bytes", maxCredentialsFile)
	}
	v.SignerType = credentials.SignatureV4
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line == "[default]" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		name, value, _ := strings.Cut(line, "=")
		fields := map[string]*string{
			"aws_access_key_id": &v.AccessKeyID, "aws_secret_access_key": &v.SecretAccessKey, "aws_session_token": &v.SessionToken,
		}
		to := fields[strings.TrimSpace(name)]
		if to == nil || *to != "" {
			return v, fmt.Errorf("line %d: %w", number, errCredentialLines)
		}
		*to = strings.TrimSpace(value)
	}
	if v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return v, errCredentialLines
	}
	return v, nil
}

// CheckFiles reads the file with credentials as a member does, and returns its fault.
func (s Settings) CheckFiles() (faults []*secretfile.Fault) {
	if s.CredentialsFile == "" || !IsBucket(s.To) {
		return nil
	}
	_, err := readCredentials(s.CredentialsFile)
	if fault := (*secretfile.Fault)(nil); errors.As(err, &fault) {
		faults = append(faults, fault)
	}
	return faults
}
