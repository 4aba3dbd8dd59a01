package main

import "slices"

// linkDelays are the delays of links between members, in ms each way.
var linkDelays = []string{"1", "5", "25"}

// linkPart returns the part with the measurements of a delay.
func linkPart(delay string) string { return "links-" + delay + "ms" }

// HasLinks reports whether members were measured over links with a delay.
func (k *measurements) HasLinks() bool {
	return slices.ContainsFunc(linkDelays, func(delay string) bool { return len(k.runsByPart[linkPart(delay)]) > 0 })
}
