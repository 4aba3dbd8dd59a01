package power

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"rollcall/integration/process"
)

// startRecorded starts an ensemble whose members' data directories are recorded.
func startRecorded(t *testing.T, r *recorder, size int, lines string) (*process.Ensemble, map[*process.Member]*recorded) {
	t.Helper()
	disks := map[*process.Member]*recorded{}
	e := process.StartEnsemble(t, process.Config{
		Size: size, Tick: tick, Binary: rollcall, Lines: "maxClientCnxns=0\n" + lines,
		Prepare: func(m *process.Member) {
			disks[m] = r.record(t, rollcall, m.Data, m.ID)
			m.Binary, m.Env = disks[m].Binary, disks[m].Env
		},
	})
	return e, disks
}

// All members lose their power at the same moment, under load. None refuses to start, and most of them have everything that was
// acknowledged.
func TestAllLosePower(t *testing.T) {
	const seed = 1
	r := &recorder{}
	e, _ := startRecorded(t, r, 3, "snapCount=40\n")
	first := r.place()
	l := startLoad(t, r, e.Members, seed)
	l.await(t, 300)
	acked := l.stop()
	e.KillAll()
	changes := r.all()
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range process.Setting(t, "ROLLCALL_OUTAGES", 1, 40) {
		place := first + rng.IntN(len(changes)-first)
		t.Run(fmt.Sprintf("seed=%d", i), func(t *testing.T) {
			dirs, o := cut(t, changes, place, len(e.Members), uint64(i))
			all, err := readAll(dirs, servers(e))
			if err == nil {
				err = judge(all, before(acked, place), 2)
			}
			if err != nil {
				t.Errorf("power was lost after change %d, and the disk %v: %v", place, o, err)
			}
		})
	}
}

// servers returns the server lines of an ensemble as the members' directories have them.
func servers(e *process.Ensemble) []string {
	var lines []string
	for _, m := range e.Members {
		_, line, _ := strings.Cut(m.Line, "=")
		lines = append(lines, line)
	}
	return lines
}
