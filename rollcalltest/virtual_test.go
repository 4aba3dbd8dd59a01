package rollcalltest_test

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rollcall "rollcall/client"
	"rollcall/client/lock"
	"rollcall/rollcalltest"
)

func TestLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := rollcalltest.StartWith(t, rollcalltest.Config{Pipes: true})
		c, err := rollcall.Dial(t.Context(), srv.ConnectString(), rollcall.Config{Timeout: 10 * time.Second, DialConn: srv.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abandon()
		held, err := lock.NewMutex(c, "/locks/job", lock.Config{}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		paused := time.Now()
		if err := srv.Pause(); err != nil {
			t.Fatal(err)
		}
		<-held.Lost() // in no time
		if after := time.Since(paused); after > 10*time.Second || held.Held() {
			t.Errorf("the lock was lost after %v", after)
		}
	})
}

// docs/testing.md shows the test above as it is.
func TestDocumentedExample(t *testing.T) {
	source, err := os.ReadFile("virtual_test.go")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		text := string(source[decl.Pos()-1 : decl.End()-1])
		if strings.HasPrefix(text, "func TestLockIsLost(") && !strings.Contains(string(page), "```go\n"+text+"\n```") {
			t.Error("docs/testing.md does not show TestLockIsLost as it is here")
		}
	}
}
