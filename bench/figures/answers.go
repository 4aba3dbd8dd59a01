package main

import (
	"image/color"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// answer is a picture that answers one question about ZooKeeper and Rollcall: panels of bars side by side.
type answer struct {
	file   string // without its extension
	panels []bars
}

// bars is a panel with one figure of some rows: a bar of each side for each row, of the median, with the least and the
// greatest as an error bar.
type bars struct {
	title, figure string
	rows          []barRow
}

type barRow struct{ label, part, row string }

// sides are the colours of the bars.
var sides = []struct {
	name   string
	colour color.Color
}{
	{"ZooKeeper", color.RGBA{R: 150, G: 150, B: 150, A: 255}},
	{"Rollcall", color.RGBA{R: 31, G: 119, B: 180, A: 255}},
}

const barWidth = 1.1 * vg.Centimeter

func answers() []answer {
	killed, stopped, paused := "the leader's process is killed, 1,000 sessions connected", "the leader is stopped, 1,000 sessions connected",
		"the leader's process is paused for 5 s, 1,000 sessions connected"
	return []answer{
		{"how-fast", []bars{
			{"one client, set, p50 in ms", "p50", []barRow{{"at the leader", "three", "set, 1 client on the leader"}, {"at a follower", "three", "set, 1 client on a follower"}}},
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
		{"how-many", []bars{
			{"memory of three servers, MiB", "RSS of the servers", []barRow{
				{"set, 8x64", "three", "set, 8 clients of 64 requests, 100 B"}, {"15,000 idle sessions", "idle15", "15,000 idle sessions"},
			}},
			{"15,000 idle sessions, CPU of a ping in µs", "server CPU per op", []barRow{{"ping", "idle15", "15,000 idle sessions"}}},
			{"10,000 watches on one node, ms until all heard", "last event p50", []barRow{{"last event", "three", "watches, 10,000 on one node"}}},
		}},
		{"how-long", []bars{
			{"longest time without a write, ms", "longest gap of writes", []barRow{{"leader killed", "failover", killed}, {"leader stopped", "failover", stopped}}},
			{"the same at the other members, ms", "longest gap of writes at the others", []barRow{{"leader paused for 5 s", "failover", paused}}},
			{"longest time without a read there, ms", "longest gap of reads at the others", []barRow{{"leader killed", "failover", killed}, {"leader stopped", "failover", stopped}}},
		}},
	}
}

// draw writes the picture as an SVG. A panel without data is left out.
func (a *answer) draw(directory string, k *kept) error {
	var plots []*plot.Plot
	for _, panel := range a.panels {
		one, err := panel.plot(k)
		if err != nil {
			return err
		}
		if one != nil {
			plots = append(plots, one)
		}
	}
	return drawn(filepath.Join(directory, a.file), plots)
}

// plot returns the panel's plot, or nil if no row of it was measured on both sides.
func (b *bars) plot(k *kept) (*plot.Plot, error) {
	one := plot.New()
	one.Title.Text = b.title
	one.Y.Min, one.Y.Tick.Marker = 0, counted{plot.DefaultTicks{}}
	one.Legend.Top, one.Legend.Padding = true, vg.Points(2)
	var labels []string
	var rows []barRow
	for _, r := range b.rows {
		if k.of(r.part, r.row, sides[0].name, b.figure).runs > 0 && k.of(r.part, r.row, sides[1].name, b.figure).runs > 0 {
			rows, labels = append(rows, r), append(labels, r.label)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	for i, side := range sides {
		if err := b.add(one, k, rows, i, side.name, side.colour); err != nil {
			return nil, err
		}
	}
	one.Y.Max *= 1.25 // room for the legend
	one.NominalX(labels...)
	one.X.Min, one.X.Max = -0.8, float64(len(rows))-0.2
	return one, nil
}

// add draws one side's bars, each with its value above it.
func (b *bars) add(one *plot.Plot, k *kept, rows []barRow, i int, side string, colour color.Color) error {
	var medians plotter.Values
	var spreads spreadBars
	var values plotter.XYLabels
	for n, r := range rows {
		s := k.of(r.part, r.row, side, b.figure)
		medians = append(medians, s.median)
		spreads.XYs = append(spreads.XYs, plotter.XY{X: float64(n), Y: s.median})
		spreads.YErrors = append(spreads.YErrors, struct{ Low, High float64 }{s.median - s.least, s.most - s.median})
		values.XYs = append(values.XYs, plotter.XY{X: float64(n), Y: s.most})
		values.Labels = append(values.Labels, number(s.median))
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
	chart.Color, chart.LineStyle.Width, chart.Offset = colour, 0, shift
	for n := range texts.TextStyle {
		texts.TextStyle[n].XAlign = draw.XCenter
	}
	texts.Offset = vg.Point{X: shift, Y: vg.Points(3)}
	one.Add(chart, shifted{lines, shift}, texts)
	one.Legend.Add(side, chart)
	return nil
}

// spreadBars are medians with the distances to the least and the greatest.
type spreadBars struct {
	plotter.XYs
	plotter.YErrors
}

// shifted draws error bars beside their place on the axis, as the bars of a side are.
type shifted struct {
	*plotter.YErrorBars
	by vg.Length
}

func (s shifted) Plot(c draw.Canvas, p *plot.Plot) {
	c.Push()
	defer c.Pop()
	c.Translate(vg.Point{X: s.by})
	s.YErrorBars.Plot(c, p)
}
