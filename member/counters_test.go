package member_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

// Under load, and over srst and a change of leader, no counter of /metrics falls, nor a bucket, count or
// sum of a histogram or summary. At a restart they begin again.
func TestCountersFallOnlyAtARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := operators{}
		e := cluster.Start(t, 3, cluster.Options{Write: time.Millisecond, Adjust: func(cfg *member.Config) {
			all.listen(cfg)
			cfg.OperatorListener, cfg.MetricsListener = nil, cfg.OperatorListener
		}})
		first := e.Ready()
		e.Joined()
		stopped := make(chan struct{})
		for _, id := range e.IDs() {
			c := e.Connect(20*time.Second, id)
			go memberLoad(c, stopped)
			for range 3 { // connections that end; that of srst is one
				word(t, e, id, "ruok")
			}
		}
		defer close(stopped)
		before := map[uint32]map[string]float64{}
		look := func(what string) (grown int) {
			for _, id := range e.IDs() {
				now := counted(all.samples(t, id))
				for name, value := range before[id] {
					if now[name] < value {
						t.Errorf("%s: %s of member %d is %v after %v", what, name, id, now[name], value)
					}
					if now[name] > value {
						grown++
					}
				}
				before[id] = now
			}
			return grown
		}
		look("at first")
		time.Sleep(3 * time.Second)
		if n := look("under load"); n < 100 {
			t.Errorf("under load only %d series have grown", n)
		}
		for _, id := range e.IDs() {
			word(t, e, id, "srst")
		}
		look("after srst")
		e.Isolate(first)
		e.Wait("another leader", time.Minute, func() bool { l := e.Leader(); return l != 0 && l != first })
		look("after a change of leader")
		e.Rejoin(first)
		e.Ready()
		time.Sleep(3 * time.Second)
		look("with the former leader back")

		last := before[first]["packets_received"]
		e.Kill(first)
		e.Boot(first)
		e.Ready()
		if again := counted(all.samples(t, first))["packets_received"]; again >= last {
			t.Errorf("after a restart, packets_received is %v after %v", again, last)
		}
	})
}

// memberLoad writes and reads with a client, until stopped is closed.
func memberLoad(c *cluster.Client, stopped chan struct{}) {
	for {
		select {
		case <-stopped:
			return
		case <-time.After(10 * time.Millisecond):
			_, _ = c.Do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/"), Version: -1}) // may fail while there is no leader
			_, _ = c.Exists("/", true)
		}
	}
}

// counted returns the samples that count something: all but gauges, and but the quantiles of summaries.
func counted(all map[string]float64, types map[string]string) map[string]float64 {
	counts := map[string]float64{}
	for name, value := range all {
		metric, _, _ := strings.Cut(name, "{")
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if whole := strings.TrimSuffix(metric, suffix); types[whole] == "histogram" || types[whole] == "summary" && whole != metric {
				counts[name] = value
			}
		}
		if types[metric] == "counter" {
			counts[name] = value
		}
	}
	return counts
}
