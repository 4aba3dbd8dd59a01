package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curvePicture has panels of curves side by side.
type curvePicture struct {
	file   string // without its extension
	x      string
	ticks  []float64 // of a linear x axis; nil: logarithmic
	panels []curvePanel
}

// curvePanel has curves on common axes.
type curvePanel struct {
	title   string
	linearY bool // for the y axis, from 0
	curves  []string
}

const (
	panelWidth  = 11 * vg.Centimeter
	panelHeight = 8 * vg.Centimeter
)

// Sizes of ensembles in the pictures.
var (
	membersDrawn   = []float64{1, 3, 5, 7}
	observersDrawn = []float64{0, 1, 2, 4}
)

func curvePictures() []curvePicture {
	return []curvePicture{
		{"live", "sessions", nil, []curvePanel{
			{"CPU time of all members for a ping, µs", true, []string{"live: CPU time of all members for a ping"}},
			{"ping, ms", true, []string{"live: ping p50", "live: ping p99"}},
			{"memory per session, all members, B", true, []string{"live: memory per session, all members"}},
		}},
		{"sessions", "sessions", nil, []curvePanel{
			{"per session, ns", true, []string{
				"sessions: touch at the leader", "sessions: touch and flush at a member",
				"sessions: answer to a ping, flushed and encoded",
			}},
			{"promotion, ms", false, []string{"sessions: promotion"}},
			{"memory of a session in the leader's table, B", true, []string{"sessions: table of the leader"}},
		}},
		{"znodes", "nodes", nil, []curvePanel{
			{"one request, ns", true, []string{"znodes: get", "znodes: setData", "znodes: create"}},
			{"memory of a node of 100 B, B", true, []string{"znodes: memory", "znodes: length in a snapshot"}},
			{"all of them, ms", false, []string{"znodes: snapshot", "znodes: restore"}},
		}},
		{"watches", "watches", nil, []curvePanel{
			{"a write, ns", true, []string{"watches: write that one hears"}},
			{"memory of a watch, B", true, []string{"watches: memory"}},
		}},
		{"ephemerals", "ephemeral nodes of one session", nil, []curvePanel{
			{"close, ms", false, []string{"ephemerals: close of their session"}},
			{
				"writes beside it, ms", false,
				[]string{
					"ephemerals: p99 of writes, idle", "ephemerals: p99 of writes while it closes",
					"ephemerals: longest write while it closes",
				},
			},
		}},
		{"members", "members, all on one machine", membersDrawn, []curvePanel{
			{
				"requests per second", false,
				[]string{
					"members: set 64x1, ops/s", "members: set 8x64, ops/s", "members: get 64x1, ops/s",
					"members: get 8x64, ops/s",
				},
			},
			{"set, ms", false, []string{"members: set 64x1, p50", "members: set 64x1, p99", "members: set 8x64, p50", "members: set 8x64, p99"}},
			{"get, ms", false, []string{"members: get 64x1, p50", "members: get 64x1, p99", "members: get 8x64, p50", "members: get 8x64, p99"}},
		}},
		{"observers", "observers, all on one machine", observersDrawn, []curvePanel{
			panelByVoters("sets per second, 64 clients", setAtAll, "ops/s"),
			panelByVoters("CPU time of all members for a set, µs", setAtAll, "server CPU per op"),
			panelByVoters("gets per second, 64 clients", getAtAll, "ops/s"),
		}},
		{"observers-p50", "observers, all on one machine", observersDrawn, panelsByRole("p50")},
		{"observers-p99", "observers, all on one machine", observersDrawn, panelsByRole("p99")},
	}
}

// writePicture writes panels side by side as an SVG. It leaves out panels without data, and a picture of no other panels. If
// FIGURES_PNG is set, it also writes a PNG to that directory.
func writePicture[P any](file string, panels []P, newPlot func(*P) (*plot.Plot, error)) error {
	var plots []*plot.Plot
	for i := range panels {
		one, err := newPlot(&panels[i])
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if one != nil {
			plots = append(plots, one)
		}
	}
	if len(plots) == 0 {
		return nil
	}
	names := []string{file + ".svg"}
	if directory := os.Getenv("FIGURES_PNG"); directory != "" {
		names = append(names, filepath.Join(directory, filepath.Base(file)+".png"))
	}
	for _, name := range names {
		canvas, err := draw.NewFormattedCanvas(panelWidth*vg.Length(len(plots)), panelHeight, filepath.Ext(name)[1:])
		if err != nil {
			return err
		}
		drawTiles(plots, draw.New(canvas))
		var b bytes.Buffer
		if _, err := canvas.WriteTo(&b); err != nil {
			return err
		}
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func drawTiles(plots []*plot.Plot, onto draw.Canvas) {
	onto.SetColor(color.White)
	onto.Fill(onto.Rectangle.Path())
	tiles := draw.Tiles{
		Rows: 1, Cols: len(plots), PadX: vg.Centimeter / 2, PadTop: 2, PadBottom: 2, PadLeft: 2,
		PadRight: 8,
	}
	for i, c := range plot.Align([][]*plot.Plot{plots}, tiles, onto)[0] {
		plots[i].Draw(c)
	}
}

// newPlot returns the panel's plot, or nil if none of its curves was measured.
func (p *curvePanel) newPlot(page *curvePicture, points []point) (*plot.Plot, error) {
	one := plot.New()
	one.Title.Text, one.X.Label.Text = p.title, page.x
	one.Legend.Top, one.Legend.Left = true, true
	one.Add(plotter.NewGrid())
	most, least := 0.0, math.Inf(1)
	for i, curve := range p.curves {
		var line plotter.XYs
		for _, q := range points {
			if q.curve == curve && (p.linearY || q.y.median > 0) {
				line = append(line, plotter.XY{X: q.x, Y: q.y.median})
				most, least = max(most, q.y.median), min(least, q.y.median)
			}
		}
		if len(line) == 0 {
			continue
		}
		l, dots, err := plotter.NewLinePoints(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", curve, err)
		}
		l.Color, dots.Color = plotutil.Color(i), plotutil.Color(i)
		l.Width, dots.Shape = vg.Points(1.5), plotutil.Shape(i)
		one.Add(l, dots)
		if len(p.curves) > 1 {
			one.Legend.Add(curve[strings.LastIndex(curve, ": ")+2:], l, dots)
		}
	}
	if most == 0 {
		return nil, nil
	}
	p.setAxes(one, page, least, most)
	return one, nil
}

// setAxes sets the axes, and leaves space for the legend at the top.
func (p *curvePanel) setAxes(one *plot.Plot, page *curvePicture, least, most float64) {
	room := 1 + 0.12*float64(len(p.curves))
	if p.linearY {
		one.Y.Min, one.Y.Max = 0, most*room
		one.Y.Tick.Marker = plainTicks{plot.DefaultTicks{}}
	} else {
		one.Y.Scale = plot.LogScale{}
		one.Y.Tick.Marker = plainTicks{plot.LogTicks{Prec: 3}}
		one.Y.Min, one.Y.Max = math.Pow(10, math.Floor(math.Log10(least))), most*math.Pow(10, room-1)*2
	}
	if page.ticks != nil {
		var ticks plot.ConstantTicks
		for _, v := range page.ticks {
			ticks = append(ticks, plot.Tick{Value: v, Label: formatNumber(v)})
		}
		one.X.Tick.Marker = ticks
		return
	}
	one.X.Scale, one.X.Tick.Marker = plot.LogScale{}, plainTicks{plot.LogTicks{Prec: 3}}
}

// plainTicks labels ticks with plain numbers.
type plainTicks struct{ plot.Ticker }

func (c plainTicks) Ticks(least, most float64) []plot.Tick {
	ticks := c.Ticker.Ticks(least, most)
	for i := range ticks {
		if ticks[i].Label == "" {
			continue
		}
		switch v := ticks[i].Value; {
		case v >= 1e6:
			ticks[i].Label = formatNumber(v/1e6) + " M"
		case v >= 1e4:
			ticks[i].Label = formatNumber(v/1e3) + " k"
		default:
			ticks[i].Label = formatNumber(v)
		}
	}
	return ticks
}
