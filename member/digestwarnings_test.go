package member_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/logs/logtest"
	"rollcall/zk/digest"
)

// Members that hash passwords with different algorithms notice each other, and say so once.
func TestOtherDigestAlg(t *testing.T) {
	sha256, err := digest.ParseAlgorithm("SHA-256")
	if err != nil {
		t.Fatal(err)
	}
	for name, odd := range map[string]uint32{"alike": 0, "one differs": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logtest.Buffer
				e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) {
					cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
					if cfg.ID == odd {
						cfg.Digest = sha256
					}
				}})
				e.Ready()
				time.Sleep(time.Minute)
				n := strings.Count(log.String(), "another member hashes passwords with another algorithm")
				if odd == 0 && n != 0 || odd != 0 && (n == 0 || n > 4) { // each of the others and the odd one, of each other
					t.Errorf("%d warnings:\n%s", n, log.String())
				}
				if odd != 0 && !strings.Contains(log.String(), "here=SHA1 there=SHA-256") && !strings.Contains(log.String(), "here=SHA-256 there=SHA1") {
					t.Errorf("the algorithms are not named:\n%s", log.String())
				}
			})
		})
	}
}
