package admin

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/backup"
)

// A backup leaves at the default rate, whichever request starts it, unless the request names another rate.
func TestRateOfBackups(t *testing.T) {
	const seconds = 3
	for path, share := range map[string]int64{"/v1/backup": 1, "/commands/snapshot": 1, "/v1/backup?rate=1": backup.DefaultRate >> 20} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := newTestHTTP(t, "leader")
			opsOf(h).state = func(w io.Writer) (n int64, err error) {
				part := make([]byte, 64<<10)
				for n < seconds*backup.DefaultRate && err == nil {
					_, err = w.Write(part)
					n += int64(len(part))
				}
				return n, err
			}
			begun := time.Now()
			w := visit{method: "GET", path: path, header: signedIn}.to(h)
			want := time.Duration(share) * seconds * time.Second
			if took := time.Since(begun); w.Code != 200 || took < want*9/10 || took > want*11/10 {
				t.Errorf("%s: %d after %v, want %v", path, w.Code, took, want)
			}
		})
	}
}
