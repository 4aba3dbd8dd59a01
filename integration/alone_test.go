package integration

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/serverlist"
	"rollcall/member"
)

// besideItsEnsemble starts an ensemble of three whose member 1 has lost its data, and begins a second ensemble: its server
// lines name only itself, and it cannot be reached. The members down are killed first.
func besideItsEnsemble(t *testing.T, down ...uint32) *cluster.Ensemble {
	var alone atomic.Bool
	e := cluster.Start(t, 3, cluster.Options{HTTP: true, Adjust: func(cfg *member.Config) {
		if cfg.ID == 1 && alone.Load() {
			cfg.Servers = cfg.Servers[:1]
			cfg.EnsembleText = []byte(serverlist.List{{ID: 1, Host: "m1", QuorumPort: 2888, ElectionPort: 3888}}.ConfigText(0))
		}
	}})
	e.Ready()
	alone.Store(true)
	e.Kill(1)
	e.Wipe(1)
	e.Isolate(1)
	for _, id := range down {
		e.Kill(id)
	}
	e.Boot(1)
	e.Wait("a second ensemble", time.Minute, func() bool { return e.Member(1).Role() != "" })
	return e
}

// A second ensemble serves no client once it hears of the first one. Its member joins the first one when its directory
// is emptied.
func TestSecondEnsembleStopsServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := besideItsEnsemble(t)
		e.Rejoin(1)
		e.Wait("its end", 5*time.Second, func() bool { return e.Member(1).Role() == "" })
		for range 100 {
			time.Sleep(time.Second / 10)
			if text, serves := e.Member(1).Health().StatusText(); serves || !strings.Contains(text, `("m2:3888") is of another ensemble, which serves`) &&
				!strings.Contains(text, `("m3:3888") is of another ensemble, which serves`) {
				t.Fatalf("member 1 serves: %t, %s", serves, text)
			}
		}
		e.Kill(1)
		e.Wipe(1)
		e.Boot(1)
		e.Ready()
		e.Equal()
	})
}

// A member without a majority does not stop a second ensemble, which has served for an hour. When the first ensemble
// serves, the second one stops.
func TestMinorityStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := besideItsEnsemble(t, 2, 3)
		time.Sleep(time.Hour)
		e.Rejoin(1)
		e.Boot(2)
		for range 300 {
			time.Sleep(time.Second / 10)
			if text, serves := e.Member(1).Health().StatusText(); !serves {
				t.Fatalf("a member without a majority has stopped member 1: %s", text)
			}
		}
		e.Boot(3)
		e.Wait("the second ensemble's end", time.Minute, func() bool { return e.Member(1).Role() == "" })
	})
}
