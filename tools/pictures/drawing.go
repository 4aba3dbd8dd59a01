package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// classes have the style of what is drawn, and what differs on a dark page. ping, write, ack, over and plain are kinds of
// arrows; each has one class for its line and one for its head.
var classes = []struct{ class, style, onDark string }{
	{"text", "font: 14px sans-serif; fill: #1f2328", "fill: #f0f6fc"},
	{".title", "font-weight: bold", ""},
	{".small", "font-size: 12px; fill: #59636e", "fill: #9198a1"},
	{".middle", "text-anchor: middle", ""},
	{".right", "text-anchor: end", ""},
	{".number", "font-size: 12px; font-weight: bold; text-anchor: middle; fill: #ffffff", "fill: #0d1117"},
	{".page", "fill: #ffffff", "fill: #0d1117"},
	{".server", "fill: #f6f8fa; stroke: #818b98", "fill: #151b23; stroke: #656c76"},
	{".part", "fill: #ffffff; stroke: #818b98", "fill: #0d1117; stroke: #656c76"},
	{".plain", "fill: none; stroke: #818b98", "stroke: #9198a1"},
	{".grid", "stroke: #d1d9e0", "stroke: #3d444d"},
	{".ping", "fill: none; stroke: #0969da; stroke-width: 1.8", "stroke: #4493f8"},
	{".write", "fill: none; stroke: #bc4c00; stroke-width: 1.8", "stroke: #f0883e"},
	{".over", "fill: none; stroke: #d1242f; stroke-width: 1.8", "stroke: #f85149"},
	{".ack", "fill: none; stroke: #1a7f37; stroke-width: 1.8", "stroke: #3fb950"},
	{".pingfill", "fill: #0969da", "fill: #4493f8"},
	{".writefill", "fill: #bc4c00", "fill: #f0883e"},
	{".overfill", "fill: #d1242f", "fill: #f85149"},
	{".ackfill", "fill: #1a7f37", "fill: #3fb950"},
	{".plainfill", "fill: #818b98", "fill: #9198a1"},
	{".kept", "fill: #b6daff; stroke: #0969da", "fill: #12345c; stroke: #4493f8"},
	{".live", "fill: #c8ecd0; stroke: #1a7f37", "fill: #12361f; stroke: #3fb950"},
	{".dashed", "stroke-dasharray: 5 4", ""},
}

// styleSheet returns the classes as CSS, so that a picture follows the reader's choice of a light or a dark page.
func styleSheet() string {
	sheet, onDark := "\n", ""
	for _, c := range classes {
		sheet += c.class + " { " + c.style + " }\n"
		if c.onDark != "" {
			onDark += c.class + " { " + c.onDark + " }\n"
		}
	}
	return sheet + "@media (prefers-color-scheme: dark) {\n" + onDark + "}\n"
}

const (
	textLine = 20.0 // from one line of text to the next one
	headSize = 8.0  // the length of an arrow's head
)

// drawing is an SVG in progress.
type drawing struct {
	width, height float64
	body          strings.Builder
}

// svg returns the file. title is what a screen reader reads.
func (d *drawing) svg(title string) string {
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\">\n<title>%s</title>\n<style>%s</style>\n<rect class=\"page\" width=\"%g\" height=\"%g\" rx=\"8\"/>\n%s</svg>\n",
		d.width, d.height, d.width, d.height, html.EscapeString(title), styleSheet(), d.width, d.height, d.body.String())
}

func (d *drawing) box(class string, x, y, width, height float64) {
	fmt.Fprintf(&d.body, "<rect class=\"%s\" x=\"%.4g\" y=\"%.4g\" width=\"%.4g\" height=\"%.4g\" rx=\"5\"/>\n", class, x, y, width, height)
}

// text draws lines below each other; y is the baseline of the first.
func (d *drawing) text(class string, x, y float64, lines ...string) {
	for i, line := range lines {
		fmt.Fprintf(&d.body, "<text class=\"%s\" x=\"%.4g\" y=\"%.4g\">%s</text>\n", class, x, y+textLine*float64(i), html.EscapeString(line))
	}
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&d.body, "<line class=\"%s\" x1=\"%.4g\" y1=\"%.4g\" x2=\"%.4g\" y2=\"%.4g\"/>\n", class, x1, y1, x2, y2)
}

// arrow draws a line whose head touches x2, y2. kind is one of those in classes.
func (d *drawing) arrow(kind string, x1, y1, x2, y2 float64) {
	far := math.Hypot(x2-x1, y2-y1)
	dx, dy := (x2-x1)/far*headSize, (y2-y1)/far*headSize
	d.line(kind, x1, y1, x2-dx, y2-dy)
	d.head(kind, x2, y2, dx, dy)
}

// arc draws an arrow between two places of the same height, bent upwards.
func (d *drawing) arc(kind string, x1, x2, y, rise float64) {
	fmt.Fprintf(&d.body, "<path class=\"%s\" d=\"M%.4g %.4g Q%.4g %.4g %.4g %.4g\"/>\n", kind, x1, y, (x1+x2)/2, y-2*rise, x2, y)
	far := math.Hypot((x2-x1)/2, 2*rise)
	d.head(kind, x2, y, (x2-x1)/2/far*headSize, 2*rise/far*headSize)
}

// head draws the head of an arrow that points along dx, dy.
func (d *drawing) head(kind string, x, y, dx, dy float64) {
	fmt.Fprintf(&d.body, "<polygon class=\"%sfill\" points=\"%.4g,%.4g %.4g,%.4g %.4g,%.4g\"/>\n",
		kind, x, y, x-dx-dy/2, y-dy+dx/2, x-dx+dy/2, y-dy-dx/2)
}

func (d *drawing) dot(kind string, x, y, radius float64) {
	fmt.Fprintf(&d.body, "<circle class=\"%sfill\" cx=\"%.4g\" cy=\"%.4g\" r=\"%.4g\"/>\n", kind, x, y, radius)
}

// step draws a disc with the number of a step.
func (d *drawing) step(kind, number string, x, y float64) {
	d.dot(kind, x, y, 9)
	d.text("number", x, y+4.5, number)
}
