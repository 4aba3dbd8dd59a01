package member_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

// The leader alone reports that the data reach 80 % and 95 % of their quota, once each. The next leader
// reports it again. Past the quota, writes that add bytes are refused on every member.
func TestDataQuotaIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota = 10_000
		var told []int64 // percent
		e := cluster.Start(t, 3, cluster.Options{
			Adjust: func(cfg *member.Config) { cfg.Rules.DataQuota = quota },
			Events: func(ev member.Event) {
				if ev.Kind == member.EventQuotaWarning && ev.Quota.BytesLimit == quota {
					told = append(told, ev.Quota.Bytes/100)
				}
			},
		})
		leader := e.Ready()
		e.Joined()
		c := e.Connect(20*time.Second, e.Followers()[0])
		set := func(size int) error {
			_, err := c.Do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/n"), Data: make([]byte, size), Version: -1})
			return err
		}
		if _, err := c.Create("/n", nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		// the built-in nodes and their two lists take 770 bytes
		for _, size := range []int{4400, 7500, 7600, 9000, 9100} {
			if err := set(size); err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
		}
		synctest.Wait()
		if want := []int64{82, 97}; !slices.Equal(told, want) {
			t.Errorf("reported at %d percent, want %d", told, want)
		}
		if err := set(quota); err == nil {
			t.Error("data beyond the quota are accepted")
		}
		told = nil
		e.Kill(leader)
		if err := set(8900); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(told) != 1 {
			t.Errorf("the next leader reported at %d percent, want once", told)
		}
	})
}
