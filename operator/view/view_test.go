package view

import (
	"encoding/json"
	"strings"
	"testing"
)

// A list without rows is sent as an empty one, and so is that of the silent members.
func TestListsAreNeverNull(t *testing.T) {
	f := newFake(t, 1)
	f.leader = 0
	for name, get := range map[string]func() (any, error){
		"status":          func() (any, error) { return f.MemberStatuses(t.Context()) },
		"sessions":        func() (any, error) { return f.Sessions(t.Context(), SessionFilter{}, Page{}) },
		"sorted":          func() (any, error) { return f.SessionsBy(t.Context(), SessionFilter{}, ByTimeLeft, Page{}) },
		"connections":     func() (any, error) { return f.Connections(t.Context(), ConnectionFilter{}, Page{}) },
		"watches":         func() (any, error) { return f.PathWatches(t.Context(), "/a", Page{}) },
		"session watches": func() (any, error) { return f.SessionWatches(t.Context(), 1, Page{}) },
		"buckets":         func() (any, error) { return f.ExpiryBuckets(t.Context()) },
	} {
		got, err := get()
		text, _ := json.Marshal(got)
		if err != nil || strings.Contains(string(text), `"items":null`) || strings.Contains(string(text), `"buckets":null`) || !strings.Contains(string(text), `"silent":[]`) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}
