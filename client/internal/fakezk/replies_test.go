package fakezk

import (
	"testing"

	"rollcall/zk/zktest"
)

// The server replies as the real one does, which has the same test.
func TestReplies(t *testing.T) { zktest.TestServer(t, New(t).Accept) }
