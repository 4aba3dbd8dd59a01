package main

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// barPicture answers one question about ZooKeeper and Rollcall with panels of bars side by side.
type barPicture struct {
	file   string // without its extension
	panels []barPanel
}

// barPanel shows one figure of several rows. A row has a bar for each side: the median, with minimum and
// maximum as error bars.
type barPanel struct {
	title, figure string
	rows          []barRow
}

type barRow struct{ label, part, row string }

var barSides = []struct {
	name   string
	colour color.Color
}{
	{"ZooKeeper", color.RGBA{R: 150, G: 150, B: 150, A: 255}},
	{"Rollcall", color.RGBA{R: 31, G: 119, B: 180, A: 255}},
}

const barWidth = 1.1 * vg.Centimeter

func barPictures() []barPicture {
	killed, stopped, paused := "the leader's process is killed, 1,000 sessions connected",
		"the leader is stopped, 1,000 sessions connected",
		"the leader's process is paused for 5 s, 1,000 sessions connected"
	return []barPicture{
		{"how-fast", []barPanel{
			{
				"one client, set, p50 in ms", "p50",
				[]barRow{
					{"at the leader", "three", "set, 1 client on the leader"},
					{"at a follower", "three", "set, 1 client on a follower"},
				},
			},
			{"requests per second", "ops/s", []barRow{
				{"set, 64 clients", "three", "set, 64 clients of 1 request, 100 B"},
				{"get, 64 clients", "three", "get, 64 clients of 1 request"},
				{"set, 8x64", "three", "set, 8 clients of 64 requests, 100 B"},
				{"mix, 8x64", "three", "mix of 90 get and 10 set, 8 clients of 64 requests"},
			}},
			{"sessions opened and closed per second", "ops/s", []barRow{
				{"32 at once", "three", "sessions opened and closed, 32 at once"}, {"256 at once", "three", "sessions opened and closed, 256 at once"},
			}},
		}},
		{"how-many", []barPanel{
			{"memory of three servers, MiB", "RSS of the servers", []barRow{
				{"set, 8x64", "three", "set, 8 clients of 64 requests, 100 B"}, {"15,000 idle sessions", "idle15", "15,000 idle sessions"},
			}},
			{"15,000 idle sessions, CPU of a ping in µs", "server CPU per op", []barRow{{"ping", "idle15", "15,000 idle sessions"}}},
			{"10,000 watches on one node, ms until all heard", "last event p50", []barRow{{"last event", "three", "watches, 10,000 on one node"}}},
		}},
		{"how-long", []barPanel{
			{
				"longest time without a write, ms", "longest gap of writes",
				[]barRow{{"leader killed", "failover", killed}, {"leader stopped", "failover", stopped}},
			},
			{"the same at the other members, ms", "longest gap of writes at the others", []barRow{{"leader paused for 5 s", "failover", paused}}},
			{
				"longest time without a read there, ms", "longest gap of reads at the others",
				[]barRow{{"leader killed", "failover", killed}, {"leader stopped", "failover", stopped}},
			},
		}},
	}
}

// newPlot returns the panel's plot, or nil if no row was measured on both sides.
func (b *barPanel) newPlot(k *measurements) (*plot.Plot, error) {
	one := plot.New()
	one.Title.Text = b.title
	one.Y.Min, one.Y.Tick.Marker = 0, plainTicks{plot.DefaultTicks{}}
	one.Legend.Top, one.Legend.Padding = true, vg.Points(2)
	var labels []string
	var rows []barRow
	for _, r := range b.rows {
		if k.rowSpread(r.part, r.row, barSides[0].name, b.figure).runs > 0 &&
			k.rowSpread(r.part, r.row, barSides[1].name, b.figure).runs > 0 {
			rows, labels = append(rows, r), append(labels, r.label)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	for i := range barSides {
		if err := b.drawSideBars(one, k, rows, i); err != nil {
			return nil, err
		}
	}
	one.Y.Max *= 1.25 // room for the legend
	one.NominalX(labels...)
	one.X.Min, one.X.Max = -0.8, float64(len(rows))-0.2
	return one, nil
}

// drawSideBars draws the bars of the i-th side with their values.
func (b *barPanel) drawSideBars(one *plot.Plot, k *measurements, rows []barRow, i int) error {
	side := barSides[i]
	var medians plotter.Values
	var spreads spreadBars
	var values plotter.XYLabels
	for n, r := range rows {
		s := k.rowSpread(r.part, r.row, side.name, b.figure)
		medians = append(medians, s.median)
		spreads.XYs = append(spreads.XYs, plotter.XY{X: float64(n), Y: s.median})
		spreads.YErrors = append(spreads.YErrors, struct{ Low, High float64 }{s.median - s.minimum, s.maximum - s.median})
		values.XYs = append(values.XYs, plotter.XY{X: float64(n), Y: s.maximum})
		values.Labels = append(values.Labels, formatNumber(s.median))
	}
	chart, err := plotter.NewBarChart(medians, barWidth)
	if err != nil {
		return err
	}
	lines, err := plotter.NewYErrorBars(spreads)
	if err != nil {
		return err
	}
	texts, err := plotter.NewLabels(values)
	if err != nil {
		return err
	}
	shift := barWidth * vg.Length(2*i-1) / 2
	chart.Color, chart.LineStyle.Width, chart.Offset = side.colour, 0, shift
	for n := range texts.TextStyle {
		texts.TextStyle[n].XAlign = draw.XCenter
	}
	texts.Offset = vg.Point{X: shift, Y: vg.Points(3)}
	one.Add(chart, shiftedErrorBars{lines, shift}, texts)
	one.Legend.Add(side.name, chart)
	return nil
}

// spreadBars are medians with the distances to minimum and maximum.
type spreadBars struct {
	plotter.XYs
	plotter.YErrors
}

// shiftedErrorBars draws error bars at an offset from their place on the axis, like the bars of a side.
type shiftedErrorBars struct {
	*plotter.YErrorBars
	offset vg.Length
}

func (s shiftedErrorBars) Plot(c draw.Canvas, p *plot.Plot) {
	c.Push()
	defer c.Pop()
	c.Translate(vg.Point{X: s.offset})
	s.YErrorBars.Plot(c, p)
}
