package cli

import (
	"strings"
	"testing"

	"rollcall/cli/nodes"
	"rollcall/client"
)

// A write that a hard quota rejects says so, and how to see the quota.
func TestQuotaExceededText(t *testing.T) {
	err := explainNodeError("set", nodes.Space{}, true, &client.Error{Op: "setData", Path: "/q/a", Err: client.ErrQuotaExceeded})
	if text := err.Error(); !strings.Contains(text, "a hard quota of this node or of one above it is used up, so writes that add to it are rejected; rollcall quota PATH") {
		t.Errorf("%q", text)
	}
}
