package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	// maxReplyBytes limits the replies that a Client reads: a page of rows, or a node with the largest data in
	// base64.
	maxReplyBytes = 32 << 20
	// maxFailureBytes limits the text of a rejected stream: a sentence.
	maxFailureBytes = 64 << 10
	// maxBodyTime limits how long the body of a reply may take, which starts after its header: the longest, at half
	// a megabyte in a second. A member that sends byte by byte would go on for days.
	maxBodyTime = time.Minute
	// maxListTime limits all pages of a list. A million sessions take seconds, and a member whose pages never end
	// would go on for ever.
	maxListTime = time.Hour
	// PageRows limits the rows of a page, and is the default.
	PageRows = 1000
)

var (
	errSlowBody = fmt.Errorf("the reply has not ended %v after its beginning", maxBodyTime)
	errLongList = fmt.Errorf("the list has not ended after %v", maxListTime)
)

// Client sends requests to one member. Its methods return within the member's deadline of a few seconds, or when
// ctx ends. A hanging member never replies, so give ctx a deadline. A reply that has begun has maxBodyTime, except
// that of GetStream. A Client follows no redirects, because its
// credentials are for one member. It is safe for concurrent use.
type Client struct {
	BaseURL       string       // such as http://127.0.0.1:8080
	Address       string       // what users call the member, such as unix:/var/lib/rollcall/admin.sock; "": BaseURL
	Authorization string       // value of the header Authorization; "": none
	HTTPClient    *http.Client // nil: http.DefaultClient
}

// Name returns the member's name for users.
func (c *Client) Name() string { return cmp.Or(c.Address, c.BaseURL) }

// Error is a reply with a status other than 200.
type Error struct {
	Status int    // of HTTP
	Text   string // from the member
	Reason string // for programs, such as ReasonRemoved; "": the status suffices
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Get returns the reply to a GET of path below /v1/, with the parameters of query. The error is an *Error if the
// member rejects the request.
func Get[T any](ctx context.Context, c *Client, path string, query url.Values) (reply T, err error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	err = c.requestJSON(ctx, http.MethodGet, path, nil, &reply)
	return reply, err
}

// Post sends body as JSON to path below /v1/, and returns the reply. The error is as for Get. It changes
// something, so it needs Authorization.
func Post[T any](ctx context.Context, c *Client, path string, body any) (reply T, err error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return reply, err
	}
	err = c.requestJSON(ctx, http.MethodPost, path, sent, &reply)
	return reply, err
}

// AllRows yields the rows of all pages of the list at path. It calls silent, unless that is nil, once for each
// member that did not reply. The last pair has the error, if there was one.
func AllRows[T any](ctx context.Context, c *Client, path string, query url.Values, silent func(Silence)) iter.Seq2[T,
	error] {
	return func(yield func(T, error) bool) {
		ctx, stop := context.WithTimeoutCause(ctx, maxListTime, errLongList)
		defer stop()
		params := url.Values{}
		for name, values := range query {
			params[name] = values
		}
		reported := map[uint32]bool{}
		for {
			page, err := Get[List[T]](ctx, c, path, params)
			if err != nil && errors.Is(context.Cause(ctx), errLongList) {
				err = fmt.Errorf("api: %s: %w", c.Name(), errLongList)
			}
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, s := range page.Silent {
				if silent != nil && !reported[s.MemberID] {
					silent(s)
				}
				reported[s.MemberID] = true
			}
			for _, row := range page.Items {
				if !yield(row, nil) {
					return
				}
			}
			switch page.NextCursor {
			case "":
				return
			case params.Get("from"):
				yield(*new(T), fmt.Errorf("api: %s: the list does not continue after %.100q", c.Name(), page.NextCursor))
				return
			}
			params.Set("from", page.NextCursor)
		}
	}
}

// GetText returns the reply to a GET of any path, as it is, up to maxReplyBytes. The error is an *Error if the
// member rejects the request.
func (c *Client) GetText(ctx context.Context, path string) ([]byte, error) {
	var b bytes.Buffer
	err := c.readReply(ctx, http.MethodGet, path, nil, &b)
	return b.Bytes(), err
}

// replyBuffers are reused: a long list has a hundred pages.
var replyBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// requestJSON sends a request for path below /v1/ and decodes the reply.
func (c *Client) requestJSON(ctx context.Context, method, path string, body []byte, into any) error {
	b := replyBuffers.Get().(*bytes.Buffer)
	b.Reset()
	defer replyBuffers.Put(b)
	if err := c.readReply(ctx, method, "/v1/"+strings.TrimPrefix(path, "/"), body, b); err != nil {
		return err
	}
	if err := json.Unmarshal(b.Bytes(), into); err != nil { // it copies what it keeps
		return fmt.Errorf("api: %s does not reply as a member of Rollcall: %w", c.Name(), err)
	}
	return nil
}

// GetStream calls read with the body of the reply to a GET of path below /v1/ while it arrives. It returns the
// error of read, or an *Error if the member rejects the request. read must bound what it keeps.
func (c *Client) GetStream(ctx context.Context, path string, query url.Values, read func(io.Reader) error) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	body, err := c.OpenStream(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // it was only read from
	return read(body)
}

// OpenStream returns the body of the reply to a GET of path below /v1/, with its query, while it arrives. The error is an *Error if
// the member rejects the request. The caller must bound what it keeps, and close the body.
func (c *Client) OpenStream(ctx context.Context, path string) (io.ReadCloser, error) {
	reply, err := c.sendRequest(ctx, http.MethodGet, "/v1/"+path, nil)
	if err != nil {
		return nil, err
	}
	if reply.StatusCode == http.StatusOK {
		return reply.Body, nil
	}
	defer func() { _ = reply.Body.Close() }() // it was only read from
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxFailureBytes))
	if err != nil {
		return nil, fmt.Errorf("api: %s: %w", c.Name(), err)
	}
	return nil, failureError(reply.StatusCode, text)
}

// readReply sends a request and appends the body of the reply to into.
func (c *Client) readReply(ctx context.Context, method, path string, body []byte, into *bytes.Buffer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	reply, err := c.sendRequest(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }() // it was only read from
	defer time.AfterFunc(maxBodyTime, func() { stop(errSlowBody) }).Stop()
	_, err = into.ReadFrom(io.LimitReader(reply.Body, maxReplyBytes+1))
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errSlowBody):
		return fmt.Errorf("api: %s: %w", c.Name(), errSlowBody)
	case err != nil:
		return fmt.Errorf("api: %s: %w", c.Name(), err)
	case into.Len() > maxReplyBytes:
		return fmt.Errorf("api: %s: the reply has more than %d bytes", c.Name(), maxReplyBytes)
	case reply.StatusCode != http.StatusOK:
		return failureError(reply.StatusCode, into.Bytes())
	}
	return nil
}

// sendRequest returns the reply with its body unread.
func (c *Client) sendRequest(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	if c.Authorization != "" {
		r.Header.Set("Authorization", c.Authorization)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	caller := *http.DefaultClient
	if c.HTTPClient != nil {
		caller = *c.HTTPClient
	}
	caller.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	reply, err := caller.Do(r)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	return reply, nil
}

// failureError returns the error for a reply whose status is not 200.
func failureError(status int, text []byte) error {
	var f Failure
	if json.Unmarshal(text, &f) != nil || f.Error == "" {
		line, _, _ := strings.Cut(string(text), "\n")
		f.Error = fmt.Sprintf("status %d: %.200q", status, line)
	}
	return &Error{Status: status, Text: f.Error, Reason: f.Reason}
}
