package kubernetes

import (
	"context"
	"os"
	"testing"
	"time"
)

const (
	// pollEvery is the time between two looks at the same thing.
	pollEvery = 200 * time.Millisecond
	// requestWithin limits one request to the API.
	requestWithin = 5 * time.Second
)

// await looks until there is no error any more, and fails the test with the last one if that takes too long.
func await(t *testing.T, within time.Duration, what string, look func(context.Context) error) {
	t.Helper()
	var err error
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(pollEvery) {
		ctx, cancel := context.WithTimeout(t.Context(), requestWithin)
		err = look(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	t.Fatalf("%s: not within %v: %v", what, within, err)
}

// tail returns the last n bytes of a file.
func tail(path string, n int) []byte {
	text, _ := os.ReadFile(path)
	return text[max(0, len(text)-n):]
}
