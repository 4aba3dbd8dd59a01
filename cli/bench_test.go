package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"rollcall/operator/api"
)

// BenchmarkSessions lists 100,000 sessions, 10,000 with -short, of a member that answers at once. One op is
// one list.
func BenchmarkSessions(b *testing.B) {
	sessions := 100_000
	if testing.Short() {
		sessions = 10_000
	}
	pages := make([][]byte, sessions/api.PageRows)
	for i := range pages {
		page := api.List[api.Session]{Silent: []api.Silence{}}
		for k := range api.PageRows {
			id := fmt.Sprintf("0x1000012%09x", i*api.PageRows+k)
			page.Items = append(page.Items, api.Session{
				ID: id, State: "connected", MemberID: 1, Address: "10.0.0.1:46396", TimeoutMs: 15000, LeftMs: ptr(int64(13500)), HeardMs: ptr(int64(1500)), CreatedAt: testNow,
				Connection: &api.Connection{MemberID: 1, Number: uint64(k), Address: "10.0.0.1:46396", SessionID: id, TimeoutMs: 15000, EstablishedAt: testNow, LastOp: "ping", LastZxid: "0x0", LastUs: 20},
			})
		}
		if i < len(pages)-1 {
			page.NextCursor = strconv.Itoa(i + 1)
		}
		pages[i], _ = json.Marshal(page)
	}
	member := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, _ := strconv.Atoi(r.FormValue("from"))
		_, _ = w.Write(pages[i])
	}))
	defer member.Close()
	for _, args := range [][]string{{"-o", "table"}, {"-o", "json"}, {"-o", "yaml"}, {"--sort", "heard"}, {"--sort", "heard", "--limit", "20"}} {
		b.Run(fmt.Sprint(args), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := IOStreams{Out: io.Discard, Err: io.Discard, Env: []string{"ROLLCALL_ADMIN=" + member.URL}, Now: time.Now}
				if _, err := Execute(b.Context(), NewRoot(w, "1"), append([]string{"sessions"}, args...)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
