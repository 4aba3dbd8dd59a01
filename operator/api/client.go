package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

const (
	// maxReplyBytes is the longest answer that a Client reads, in bytes: a page of rows, or a node with
	// the largest data in base64.
	maxReplyBytes = 32 << 20
	// maxFailureBytes is how much of the answer of a member that refuses a stream is read, in bytes: a sentence.
	maxFailureBytes = 64 << 10
	// PageRows is the most rows that a member returns at a time, and how many it does unless it is asked for
	// fewer.
	PageRows = 1000
)

// Client asks one member. Its methods return within the member's deadline, which is a few seconds, or
// when ctx ends. A member that hangs never answers, so give ctx a deadline. A Client follows no redirect,
// because no member redirects it and its credentials are for one member. It is safe for concurrent use.
type Client struct {
	BaseURL       string       // such as http://127.0.0.1:8080
	Authorization string       // value of the header Authorization; "": none
	HTTPClient    *http.Client // nil: http.DefaultClient
}

// Error is an answer of a member that refuses or fails.
type Error struct {
	Status int    // of HTTP
	Text   string // what the member said
	Reason string // for programs, such as ReasonRemoved; "": the status says enough
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Get asks for path below /v1/, with the parameters of query, and returns the answer. The error is an
// *Error if the member refuses.
func Get[T any](ctx context.Context, c *Client, path string, query url.Values) (answer T, err error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	err = c.requestJSON(ctx, http.MethodGet, path, nil, &answer)
	return answer, err
}

// Post sends body as JSON to path below /v1/, and returns the answer likewise. It changes something, so it
// needs Auth.
func Post[T any](ctx context.Context, c *Client, path string, body any) (answer T, err error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return answer, err
	}
	err = c.requestJSON(ctx, http.MethodPost, path, sent, &answer)
	return answer, err
}

// AllRows yields the rows of all pages of the list at path. silent, unless it is nil, is called with each
// member that did not answer, once. The last pair has the error, if there was one.
func AllRows[T any](ctx context.Context, c *Client, path string, query url.Values, silent func(Silence)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		params := url.Values{}
		for name, values := range query {
			params[name] = values
		}
		told := map[uint32]bool{}
		for {
			page, err := Get[List[T]](ctx, c, path, params)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, s := range page.Silent {
				if silent != nil && !told[s.MemberID] {
					silent(s)
				}
				told[s.MemberID] = true
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
				yield(*new(T), fmt.Errorf("api: %s: the list does not go on after %.100q", c.BaseURL, page.NextCursor))
				return
			}
			params.Set("from", page.NextCursor)
		}
	}
}

// GetText asks for path, which may be any of the member's, and returns the answer as it is: at most
// maxAnswer bytes. The error is an *Error if the member refuses.
func (c *Client) GetText(ctx context.Context, path string) ([]byte, error) {
	var b bytes.Buffer
	err := c.readReply(ctx, http.MethodGet, path, nil, &b)
	return b.Bytes(), err
}

// replyBuffers are buffers for answers, used again: a long list has a hundred pages.
var replyBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// requestJSON sends a request for path below /v1/ and decodes the answer.
func (c *Client) requestJSON(ctx context.Context, method, path string, body []byte, into any) error {
	b := replyBuffers.Get().(*bytes.Buffer)
	b.Reset()
	defer replyBuffers.Put(b)
	if err := c.readReply(ctx, method, "/v1/"+strings.TrimPrefix(path, "/"), body, b); err != nil {
		return err
	}
	if err := json.Unmarshal(b.Bytes(), into); err != nil { // it copies what it keeps
		return fmt.Errorf("api: %s does not answer as a member of Rollcall: %w", c.BaseURL, err)
	}
	return nil
}

// GetStream asks for path below /v1/, with the parameters of query, and calls read with the body of the answer
// while it arrives. It returns what read returns, or an *Error if the member refuses. read needs a bound of its
// own for what it keeps.
func (c *Client) GetStream(ctx context.Context, path string, query url.Values, read func(io.Reader) error) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	answer, err := c.sendRequest(ctx, http.MethodGet, "/v1/"+path, nil)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read from
	if answer.StatusCode == http.StatusOK {
		return read(answer.Body)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxFailureBytes))
	if err != nil {
		return fmt.Errorf("api: %s: %w", c.BaseURL, err)
	}
	return failureError(answer.StatusCode, text)
}

// readReply sends a request and adds the body of the answer to into.
func (c *Client) readReply(ctx context.Context, method, path string, body []byte, into *bytes.Buffer) error {
	answer, err := c.sendRequest(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read from
	_, err = into.ReadFrom(io.LimitReader(answer.Body, maxReplyBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("api: %s: %w", c.BaseURL, err)
	case into.Len() > maxReplyBytes:
		return fmt.Errorf("api: %s: the answer has more than %d bytes", c.BaseURL, maxReplyBytes)
	case answer.StatusCode != http.StatusOK:
		return failureError(answer.StatusCode, into.Bytes())
	}
	return nil
}

// sendRequest sends a request, and returns the answer with its body unread.
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
	answer, err := caller.Do(r)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	return answer, nil
}

// failureError returns the error of an answer whose status is not 200.
func failureError(status int, text []byte) error {
	var f Failure
	if json.Unmarshal(text, &f) != nil || f.Error == "" {
		line, _, _ := strings.Cut(string(text), "\n")
		f.Error = fmt.Sprintf("status %d: %.200q", status, line)
	}
	return &Error{Status: status, Text: f.Error, Reason: f.Reason}
}
