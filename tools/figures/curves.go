package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// point is the measurement of a curve at a size.
type point struct {
	curve string // such as "znodes: get"
	unit  string
	x     float64
	y     spread
}

// benchCurves lists the curves of go test: the file, the benchmark's name before its size, the unit, and a
// factor.
var benchCurves = []struct {
	curve, unit      string
	file, name, from string
	times            float64
}{
	{"sessions: touch at the leader", "ns", "sessions", "Growth/touch/sessions=", "ns/session", 1},
	{"sessions: touch and flush at a member", "ns", "sessions", "Growth/flush/sessions=", "ns/session", 1},
	{"sessions: answer to a ping, flushed and encoded", "ns", "sessions", "Growth/ping/sessions=", "ns/session", 1},
	{"sessions: answer to a ping, length", "B", "sessions", "Growth/ping/sessions=", "B/session", 1},
	{"sessions: promotion", "ms", "sessions", "Growth/promote/sessions=", "ns/op", 1e-6},
	{"sessions: table of the leader", "B", "sessions", "Growth/promote/sessions=", "B/session", 1},
	{"znodes: get", "ns", "znodes", "Growth/get/nodes=", "ns/op", 1},
	{"znodes: setData", "ns", "znodes", "Growth/setData/nodes=", "ns/op", 1},
	{"znodes: create", "ns", "znodes", "Growth/create/nodes=", "ns/op", 1},
	{"znodes: memory", "B", "znodes", "Growth/memory/nodes=", "B/node", 1},
	{"znodes: length in a snapshot", "B", "znodes", "Growth/snapshot/nodes=", "B/node", 1},
	{"znodes: snapshot", "ms", "znodes", "Growth/snapshot/nodes=", "ns/op", 1e-6},
	{"znodes: restore", "ms", "znodes", "Growth/restore/nodes=", "ns/op", 1e-6},
	{"watches: write that one hears", "ns", "watches", "WatchGrowth/event/watches=", "ns/op", 1},
	{"watches: memory", "B", "watches", "WatchGrowth/memory/watches=", "B/watch", 1},
	{"ephemerals: close of their session", "ms", "ephemerals", "Close/ephemerals=", "ms/close", 1},
	{"ephemerals: p99 of writes, idle", "ms", "ephemerals", "Close/ephemerals=", "idle-p99-ms", 1},
	{"ephemerals: p99 of writes while it closes", "ms", "ephemerals", "Close/ephemerals=", "closing-p99-ms", 1},
	{"ephemerals: longest write while it closes", "ms", "ephemerals", "Close/ephemerals=", "closing-max-ms", 1},
}

// liveCurves lists the values of idle sessions on real connections.
var liveCurves = []struct{ curve, unit, figure string }{
	{"live: CPU time of all members for a ping", "µs", "server CPU per op"},
	{"live: ping p50", "ms", "p50"},
	{"live: ping p99", "ms", "p99"},
	{"live: memory of all members", "MiB", "RSS of the servers"},
	{"live: memory per session, all members", "B", "RSS growth per session"},
	{"live: sessions expired", "", "expired"},
}

// memberLoads are the loads of ensembles of several sizes.
var memberLoads = []string{"set 64x1", "set 8x64", "get 64x1", "get 8x64"}

// allCurvePoints returns the points of all curves.
func (k *measurements) allCurvePoints() []point {
	var list []point
	add := func(curve, unit string, x float64, y spread) {
		if y.runs > 0 {
			list = append(list, point{curve, unit, x, y})
		}
	}
	for _, l := range liveCurves {
		for _, row := range k.rowNames("live") {
			n, err := strconv.ParseFloat(row, 64)
			if err == nil {
				add(l.curve, l.unit, n, k.rowSpread("live", row, "Rollcall", l.figure))
			}
		}
	}
	for _, load := range memberLoads {
		for _, f := range []struct{ figure, unit string }{
			{"ops/s", "/s"},
			{"p50", "ms"},
			{"p99", "ms"},
			{"server CPU per op", "µs"},
		} {
			for n := range 10 {
				add("members: "+load+", "+f.figure, f.unit, float64(n),
					k.rowSpread("members", fmt.Sprintf("%d %s", n, load), "Rollcall", f.figure))
			}
		}
	}
	for _, w := range observerCurves {
		for _, size := range k.observerEnsembles() {
			add(observerCurveName(size.voters, w.load, w.figure), w.unit, float64(size.observers),
				size.loadSpread(k, w.load, w.figure))
		}
	}
	for _, g := range benchCurves {
		for _, n := range k.benchSizes(g.file, g.name) {
			y := k.benchSpread(g.file, g.name+strconv.FormatFloat(n, 'f', -1, 64), g.from)
			y.median, y.minimum, y.maximum = y.median*g.times, y.minimum*g.times, y.maximum*g.times
			add(g.curve, g.unit, n, y)
		}
	}
	slices.SortStableFunc(list, func(a, b point) int {
		if a.curve != b.curve {
			return 0
		}
		return cmp.Compare(a.x, b.x)
	})
	return list
}
