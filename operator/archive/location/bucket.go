package location

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"rollcall/operator/archive"
)

const (
	// requestTries limits how often the client of S3 sends a request. A sender has its own waits between tries.
	requestTries = 2
	// connectTimeout limits the time to connect, and headerTimeout that from a request to the header of its reply.
	connectTimeout = 10 * time.Second
	headerTimeout  = time.Minute
	// maxConnections limits the connections: a sender uses one for entries, and one for a snapshot.
	maxConnections = 4
)

// Bucket is an archive.Store in a bucket. A request to store an object has the condition that its name is not taken (If-None-Match), so
// the service decides who was first.
type Bucket struct {
	client         *minio.Client
	bucket, prefix string
}

func openBucket(s Settings) (*Bucket, error) { return openBucketWithin(s, silenceLimit) }

// openBucketWithin is openBucket with another limit of silence.
func openBucketWithin(s Settings, silence time.Duration) (*Bucket, error) {
	bucket, prefix, err := parseBucket(s.To)
	if err != nil {
		return nil, err
	}
	host, secure := "s3.amazonaws.com", true
	if s.Endpoint != "" {
		if err := CheckEndpoint(s.Endpoint); err != nil {
			return nil, err
		}
		u, _ := url.Parse(s.Endpoint) // it was checked
		host, secure = u.Host, u.Scheme == "https"
	}
	client, err := minio.New(host, &minio.Options{
		Creds: newCredentials(s.CredentialsFile), Secure: secure, Region: s.Region, MaxRetries: requestTries,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: noSilence(silence, (&net.Dialer{Timeout: connectTimeout}).DialContext),
			TLSHandshakeTimeout: connectTimeout, ResponseHeaderTimeout: headerTimeout, MaxConnsPerHost: maxConnections,
			MaxIdleConnsPerHost: maxConnections, IdleConnTimeout: silence / 2,
			DisableCompression: true, // the client of S3 would read other bytes than are stored
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.To, err)
	}
	return &Bucket{client, bucket, prefix}, nil
}

// newCredentials returns the credentials in a file, or without one those of the environment or of the machine's role.
func newCredentials(file string) *credentials.Credentials {
	if file != "" {
		return credentials.New(&fileCredentials{path: file})
	}
	return credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.IAM{}})
}

// Put implements archive.Store.
func (b *Bucket) Put(ctx context.Context, name string, content []byte) error {
	options := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true, SendContentMd5: true}
	options.SetMatchETagExcept("*")
	_, err := b.client.PutObject(ctx, b.bucket, b.prefix+name, bytes.NewReader(content), int64(len(content)), options)
	if err == nil {
		return nil
	}
	if code := minio.ToErrorResponse(err).Code; code == minio.PreconditionFailed {
		return fmt.Errorf("%s: %w", b.Location(name), archive.ErrExists)
	}
	return b.explain(name, err)
}

// Open implements archive.Store.
func (b *Bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	core := minio.Core{Client: b.client}
	object, _, _, err := core.GetObject(ctx, b.bucket, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, b.explain(name, err)
	}
	return bucketObject{object, b, name}, nil
}

// bucketObject is an object that is read. Its errors are those of the bucket, and never look like the end of a damaged object.
type bucketObject struct {
	io.ReadCloser
	bucket *Bucket
	name   string
}

// Read implements io.Reader.
func (o bucketObject) Read(b []byte) (int, error) {
	n, err := o.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s: it was not read to its end: %s", o.bucket.Location(o.name), err.Error()) // not wrapped: it may be io.ErrUnexpectedEOF
	}
	return n, err
}

// List implements archive.Store.
func (b *Bucket) List(ctx context.Context, dir, after string) iter.Seq2[archive.Item, error] {
	return func(yield func(archive.Item, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		options := minio.ListObjectsOptions{Prefix: b.prefix + dir}
		if after != "" {
			options.StartAfter = b.prefix + after
		}
		for object := range b.client.ListObjectsIter(ctx, b.bucket, options) {
			if object.Err != nil {
				yield(archive.Item{}, b.explain(dir, object.Err))
				return
			}
			name := strings.TrimPrefix(object.Key, b.prefix)
			if name == dir || name <= after {
				continue // some services have an object for each directory, or ignore the beginning of a list
			}
			if !yield(archive.Item{Name: name, Bytes: object.Size}, nil) {
				return
			}
		}
	}
}

// Location implements archive.Store.
func (b *Bucket) Location(name string) string { return Scheme + b.bucket + "/" + b.prefix + name }

// explain returns the error of a request about an object, with advice.
func (b *Bucket) explain(name string, err error) error {
	reply := minio.ToErrorResponse(err)
	advice := ""
	switch {
	case reply.Code == minio.NoSuchKey:
		return fmt.Errorf("%s: %w", b.Location(name), fs.ErrNotExist)
	case reply.Code == minio.NoSuchBucket:
		advice = "; make the bucket, or correct its name"
	case reply.Code == minio.AccessDenied:
		advice = "; its policy must allow s3:ListBucket, s3:GetObject and s3:PutObject there"
	case reply.StatusCode == http.StatusUnauthorized, strings.HasPrefix(reply.Code, "InvalidAccessKey"), strings.HasPrefix(reply.Code, "SignatureDoes"):
		advice = "; the credentials are wrong: see archive.credentialsFile"
	case reply.Code == "" || reply.StatusCode == 0 || errors.Is(err, context.DeadlineExceeded):
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // it also has the name, once more
		}
		return fmt.Errorf("%s: %w", b.Location(name), err)
	}
	return fmt.Errorf("%s: %d %s: %.300s%s", b.Location(name), reply.StatusCode, reply.Code, reply.Message, advice)
}
