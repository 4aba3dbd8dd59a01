package barrier

import (
	"regexp"
	"testing"
)

// The name of a member is a random UUID of version 4, and the names differ.
func TestNewName(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 100 {
		name := newName()
		if !form.MatchString(name) || seen[name] {
			t.Errorf("the name %s is no random UUID, or has come before", name)
		}
		seen[name] = true
	}
}
