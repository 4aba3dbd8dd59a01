package location

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// fakeS3 is a service with one bucket, as far as an archive needs it. integration/bucket runs the same requests against another one.
type fakeS3 struct {
	*httptest.Server
	mu          sync.Mutex
	objects     map[string][]byte
	requests    []string                                                 // method and path
	seen        http.Header                                              // of the last request
	fault       func(w http.ResponseWriter, r *http.Request) (done bool) // before a request is served; nil: none
	lose        func(r *http.Request) bool                               // after a request was served: the reply is lost; nil: none
	ignoreAfter bool                                                     // as some services do
	page        int                                                      // the most keys in a list
}

func newFakeS3(t *testing.T) *fakeS3 {
	f := &fakeS3{objects: map[string][]byte{}, page: 3}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// setFault replaces fault. A handler whose client has gone may still run.
func (f *fakeS3) setFault(fault func(w http.ResponseWriter, r *http.Request) (done bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *fakeS3) reject(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>the message of %s</Message></Error>", code, code) // the client may be gone
}

// ServeHTTP implements http.Handler.
func (f *fakeS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests, f.seen = append(f.requests, r.Method+" "+r.URL.Path), r.Header
	if f.fault != nil && f.fault(w, r) {
		return
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case bucket != "bucket":
		f.reject(w, http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodPut:
		f.put(w, r, key, body)
	case r.Method == http.MethodGet && key == "":
		f.list(w, r)
	case r.Method == http.MethodGet && f.objects[key] == nil:
		f.reject(w, http.StatusNotFound, "NoSuchKey")
	case r.Method == http.MethodGet:
		w.Header().Set("Last-Modified", "Mon, 02 Mar 2026 03:12:00 GMT")
		w.Header().Set("ETag", `"x"`)
		_, _ = w.Write(f.objects[key])
	default:
		f.reject(w, http.StatusMethodNotAllowed, "MethodNotAllowed")
	}
}

func (f *fakeS3) put(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		body = joinChunks(body)
	}
	if sum := md5.Sum(body); r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]) {
		f.reject(w, http.StatusBadRequest, "BadDigest")
		return
	}
	if r.Header.Get("If-None-Match") == "*" && f.objects[key] != nil {
		f.reject(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	f.objects[key] = body
	if f.lose != nil && f.lose(r) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("ETag", `"x"`)
}

// joinChunks returns the content of a body in chunks, each with its length and a signature in front.
func joinChunks(body []byte) (content []byte) {
	for {
		head, rest, _ := bytes.Cut(body, []byte("\r\n"))
		length, _, _ := strings.Cut(string(head), ";")
		n, err := strconv.ParseUint(length, 16, 31)
		if err != nil || n == 0 || int(n)+2 > len(rest) {
			return content
		}
		content, body = append(content, rest[:n]...), rest[n+2:]
	}
}

type listReply struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	IsTruncated           bool
	NextContinuationToken string
	Contents              []listObject
	CommonPrefixes        []listPrefix
}

type listObject struct {
	Key          string
	Size         int
	LastModified string
}

type listPrefix struct{ Prefix string }

func (f *fakeS3) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Has("location") {
		_, _ = io.WriteString(w, `<LocationConstraint>eu-test-1</LocationConstraint>`)
		return
	}
	prefix, after := q.Get("prefix"), max(q.Get("start-after"), q.Get("continuation-token"))
	if f.ignoreAfter {
		after = q.Get("continuation-token")
	}
	var reply listReply
	last := ""
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		name, below := strings.CutPrefix(key, prefix)
		if !below {
			continue
		}
		dir, _, deep := strings.Cut(name, "/")
		if deep {
			key = prefix + dir + "/"
		}
		if key <= after || key == last {
			continue
		}
		if reply.IsTruncated = len(reply.Contents)+len(reply.CommonPrefixes) == f.page; reply.IsTruncated {
			reply.NextContinuationToken = last
			break
		}
		if last = key; deep {
			reply.CommonPrefixes = append(reply.CommonPrefixes, listPrefix{key})
		} else {
			reply.Contents = append(reply.Contents, listObject{key, len(f.objects[key]), "2026-03-02T03:12:00.000Z"})
		}
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(reply)
}
