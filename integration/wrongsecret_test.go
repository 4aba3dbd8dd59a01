package integration

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
)

// When a member comes back with another secret, it and each of the others say that the secret differs, and still do after a minute, in
// which members close many connections before the proof.
func TestAWrongSecretIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := map[uint32]string{1: secretFile(t), 2: secretFile(t), 3: secretFile(t)}
		e := cluster.Start(t, 3, cluster.Options{Tick: time.Second, Adjust: func(cfg *member.Config) { cfg.Trust.SecretFile = file[cfg.ID] }})
		e.Ready()
		e.Joined()
		odd := e.Followers()[0]
		e.Stop(odd)
		file[odd] = secretFile(t, "a secret that the others lack")
		e.Boot(odd)
		// named reports whether each member says that the secret differs between odd and the others.
		named := func(report func(format string, args ...any)) bool {
			all := true
			for _, id := range e.IDs() {
				status, err := e.Member(id).View().MemberStatuses(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				said := map[uint32]string{}
				for _, s := range status.Silent {
					said[s.MemberID] = s.Detail
				}
				for _, m := range status.Items {
					said[m.MemberID] = m.NotServing
				}
				for other, text := range said {
					if about := id == odd || other == odd; about != strings.Contains(text, "the secret differs") {
						all = false
						report("member %d about %d: %q; it says that the secret differs, want %t", id, other, text, about)
					}
				}
			}
			return all
		}
		e.Wait("all to name the secret", 60*time.Second, func() bool { return named(func(string, ...any) {}) })
		time.Sleep(time.Minute)
		named(t.Errorf)
	})
}
