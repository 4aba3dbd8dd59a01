package console

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// figures draws bars and dots on a paper that notes what is drawn on it, and returns the dots that are drawn over figures.
const figures = `(async () => {
	const {Canvas} = await import('/console/axis-canvas.js');
	const {Bars} = await import('/console/axis-bars.js');
	const drawn = [];
	let arc = null;
	const paint = new Proxy({}, {get: (o, name) => name === 'measureText' ? (text) => ({width: 7 * text.length}) : name === 'createLinearGradient' ? () => ({addColorStop() {}}) :
		name === 'arc' ? (x, y, r) => { arc = {kind: 'dot', x, y, r}; } : name === 'fill' ? () => { if (arc) drawn.push(arc); arc = null; } :
		name === 'fillText' ? (text, x, y) => drawn.push({kind: 'figure', text, x, y, align: o.textAlign, base: o.textBaseline}) : name in o ? o[name] : () => {}});
	const element = document.createElement('canvas');
	document.querySelector('#axis').append(element);
	element.getContext = () => paint;
	element.style.cssText = 'width: 800px; height: 300px';
	const canvas = new Canvas(element), bars = new Bars();
	canvas.dress();
	canvas.range = 20000;
	canvas.top = 40;
	const answer = (counts, at) => ({at: new Date(at).toISOString(), tick_ms: 1000, leader: 1, buckets: counts.map((sessions, i) => ({due_ms: 1000 * i, sessions})).filter((b) => b.sessions > 0)});
	const begun = Date.now();
	bars.take(answer([0, 30, 20, 0, 0, 10], begun), 0);
	bars.settle(Infinity);
	canvas.fly(bars.take(answer([0, 10, 10, 0, 0, 35], begun), 0), 0);
	bars.settle(Infinity);
	let dots = 0, last = [];
	for (let local = 0; local < 900; local += 30) {
		drawn.length = 0;
		canvas.draw(bars, local, false);
		const figures = drawn.filter((d) => d.kind === 'figure' && d.align === 'center' && d.base === 'bottom');
		dots += drawn.filter((d) => d.kind === 'dot').length;
		for (const figure of figures) {
			last.push(...drawn.slice(drawn.indexOf(figure)).filter((d) => d.kind === 'dot'));
		}
		if (figures.length < 3) last.push({kind: 'missing figures', n: figures.length});
	}
	element.remove();
	return dots < 100 ? ['only ' + dots + ' dots'] : last.map((d) => JSON.stringify(d));
})()`

// No dot is drawn over a figure, and a legend explains the dots. Without movement there is no legend of it.
func TestDots(t *testing.T) {
	t.Parallel()
	f := newFake(t, 10)
	p := newTab(t, f.URL, "")
	p.shows("#live", "Live")
	if over := eval[[]string](p, figures); len(over) > 0 {
		t.Errorf("%d dots over figures: %s", len(over), strings.Join(over[:min(3, len(over))], ", "))
	}
	for _, what := range []string{"heard, and moved right", "opened", "ended"} {
		p.shows(".legend", what)
	}
	colours := eval[[]string](p, `[...document.querySelectorAll('.legend .dot')].map((e) => getComputedStyle(e).backgroundColor)`)
	if slices.Sort(colours); len(slices.Compact(colours)) != 3 {
		t.Errorf("the dots of the legend have the colours %q", colours)
	}
	p.media("prefers-reduced-motion", "reduce")
	p.wait(`!document.querySelector('.legend .dots').checkVisibility()`)
	p.shows("#leaders", "Member 2 has led since")
	if got := eval[[]string](p, `[...document.querySelectorAll('#leaders tbody tr')].map((tr) => [tr.children[0].innerText, tr.children[2].innerText, tr.children[4].innerText].join())`); !slices.Equal(got, []string{"member 2,7,no heartbeat from member 1 for 1.2 s", "member 1,6,no leader known since its start"}) {
		t.Errorf("the leaders are %q", got)
	}
	if n, err := strconv.Atoi(strings.Fields(eval[string](p, `document.querySelectorAll('#leaders tbody tr')[1].children[3].innerText`))[0]); err != nil || n != 10 {
		t.Errorf("the first leader led for %d minutes, %v, want 10", n, err)
	}
}
