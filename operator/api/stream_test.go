package api

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A stream is read while it arrives. A rejection is an Error, and a truncated reply is not an end.
func TestStream(t *testing.T) {
	member := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.String() {
		case "/v1/backup?rate=2":
			_, _ = io.WriteString(w, strings.Repeat("state", 1000))
		case "/v1/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "state")
		default:
			http.Error(w, `{"error":"the member `+r.URL.Path+` is joining"}`, http.StatusServiceUnavailable)
		}
	}))
	defer member.Close()
	c := &Client{BaseURL: member.URL, Authorization: "Bearer x"}
	var text []byte
	read := func(body io.Reader) (err error) {
		text, err = io.ReadAll(body)
		return err
	}
	if err := c.GetStream(t.Context(), "backup", url.Values{"rate": {"2"}}, read); err != nil || len(text) != 5000 {
		t.Errorf("%d bytes: %v", len(text), err)
	}
	if err := c.GetStream(t.Context(), "cut", nil, read); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an answer that is cut: %v", err)
	}
	text = nil
	var refused *Error
	if err := c.GetStream(t.Context(), "other", nil, read); !errors.As(err, &refused) || refused.Status != 503 ||
		refused.Text != "the member /v1/other is joining" || text != nil {
		t.Errorf("a refusal: %v, %q", err, text)
	}
}

// A file that the member does not have any more is one that does not exist. After another failure it may exist.
func TestHistorySourceNamesMissingFiles(t *testing.T) {
	status := 0
	member := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":"segments/1.log: file does not exist; it may have been removed"}`, status)
	}))
	defer member.Close()
	for _, status = range []int{http.StatusNotFound, http.StatusServiceUnavailable} {
		_, err := HistorySource{&Client{BaseURL: member.URL}}.Open(t.Context(), "segments/1.log")
		rejected, ok := errors.AsType[*Error](err)
		if !ok || rejected.Status != status || !strings.Contains(err.Error(), "may have been removed") ||
			errors.Is(err, fs.ErrNotExist) != (status == http.StatusNotFound) {
			t.Errorf("status %d: %v", status, err)
		}
	}
}
