// Package location opens the archives that users name: a directory, or a bucket of a service with the interface of S3.
//
//   - Settings: where an archive is, and how it is reached.
//   - Open: the archive.Store of a location.
//   - Bucket: the archive.Store in a bucket.
//
// It is apart from package archive so that only it needs the client of S3.
package location

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"rollcall/operator/archive"
)

// Settings say where an archive is.
type Settings struct {
	To              string        // the path of a directory, or s3://bucket/prefix; "": there is no archive
	Endpoint        string        // URL of the service that has the bucket; "": that of Amazon
	Region          string        // of the bucket; "": the service is asked for it
	CredentialsFile string        // "": the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or else the role of the machine
	Interval        time.Duration // between two rounds of a sender; 0: archive.DefaultInterval
}

// Scheme begins the location of a bucket.
const Scheme = "s3://"

// maxLocation limits a location, in bytes. Errors show it.
const maxLocation = 1024

// Forms describes the locations that there are.
const Forms = "the path of a directory that begins with a slash, or s3://bucket/prefix"

// ErrForm is the error for a text that is no location.
var ErrForm = errors.New("must be " + Forms)

// IsBucket reports whether a location is a bucket.
func IsBucket(to string) bool { return strings.HasPrefix(to, Scheme) }

// parseBucket reads the location of a bucket.
func parseBucket(to string) (bucket, prefix string, err error) {
	bucket, prefix, _ = strings.Cut(strings.TrimPrefix(to, Scheme), "/")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	if len(bucket) < 3 || len(bucket) > 63 || strings.Trim(bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || strings.Contains(prefix, "//") {
		return "", "", ErrForm
	}
	return bucket, prefix, nil
}

// Check returns ErrForm if a text is no location.
func Check(to string) error {
	switch {
	case len(to) > maxLocation || strings.ContainsAny(to, "\x00\n"):
		return ErrForm
	case IsBucket(to):
		_, _, err := parseBucket(to)
		return err
	case !filepath.IsAbs(to):
		return ErrForm
	}
	return nil
}

// CheckEndpoint returns an error if a text is no URL of a service. It never shows the text, which may have a password.
func CheckEndpoint(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxLocation || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("must be a URL such as https://s3.example:9000")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return errors.New("must be a URL of a host and a port alone, such as https://s3.example:9000; put keys into the file of credentials")
	}
	return nil
}

// Open returns the store at a location. It reaches it only when its methods are called. The error is one of the settings.
func Open(s Settings) (archive.Store, error) {
	if err := Check(s.To); err != nil {
		return nil, fmt.Errorf("%.300q %w", s.To, err)
	}
	if IsBucket(s.To) {
		return openBucket(s)
	}
	return archive.NewDirectory(s.To), nil
}
