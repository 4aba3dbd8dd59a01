package history

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// spans are stretches of time, in order, that neither overlap nor touch. A lookup is a binary
// search.
type spans []span

type span struct {
	from, to time.Duration
	before   time.Duration // the total length of all earlier ones
}

// mergeSpans makes spans from stretches in any order. It leaves out empty ones.
func mergeSpans(in []span) spans {
	in = slices.DeleteFunc(slices.Clone(in), func(s span) bool { return s.to <= s.from })
	slices.SortFunc(in, func(x, y span) int { return cmp.Compare(x.from, y.from) })
	var out spans
	for _, s := range in {
		last := len(out) - 1
		switch {
		case last < 0:
			out = append(out, span{from: s.from, to: s.to})
		case s.from <= out[last].to:
			out[last].to = max(out[last].to, s.to)
		default:
			out = append(out, span{from: s.from, to: s.to, before: out[last].before + out[last].to - out[last].from})
		}
	}
	return out
}

// indexAfter returns the index of the first span that ends after a moment.
func (s spans) indexAfter(at time.Duration) int {
	return sort.Search(len(s), func(i int) bool { return s[i].to > at })
}

// coveredBefore returns the part of the time before at that the spans cover.
func (s spans) coveredBefore(at time.Duration) time.Duration {
	i := s.indexAfter(at)
	switch {
	case len(s) == 0:
		return 0
	case i == len(s):
		last := s[i-1]
		return last.before + last.to - last.from
	}
	return s[i].before + max(0, at-s[i].from)
}

// overlaps reports whether any of the spans has a part in [from, to).
func (s spans) overlaps(from, to time.Duration) bool {
	i := s.indexAfter(from)
	return i < len(s) && s[i].from < to
}

// firstUncovered returns the first moment, not before at, from which no span covers the next while. Only the
// part of that stretch before limit has to be clear.
func (s spans) firstUncovered(at, while, limit time.Duration) time.Duration {
	for i := s.indexAfter(at); i < len(s) && s[i].from < min(at+while, limit); i++ {
		at = s[i].to
	}
	return at
}

// uncoveredEnds returns the ends of the stretches after at that no span covers. Each stretch is cut to
// the length while; the last one has that length.
func (s spans) uncoveredEnds(at, while time.Duration) []time.Duration {
	var out []time.Duration
	for i := s.indexAfter(at); i < len(s) && s[i].from < at+while; i++ {
		if s[i].from > at {
			out = append(out, s[i].from)
		}
		at = s[i].to
	}
	return append(out, at+while)
}

// outages returns when a leader may not have heard a member, or if certain is set, when it cannot have heard anything from it.
func (b *indexedHistory) outages(leader, member uint32, certain bool) spans {
	var out []span
	for _, o := range b.Outages {
		down := o.A == o.B && !o.Partial && (o.A == leader || o.A == member)
		apart := o.A != o.B && o.A == min(leader, member) && o.B == max(leader, member) && !(certain && o.Partial)
		if down || apart {
			out = append(out, span{from: o.From, to: o.To})
		}
	}
	return mergeSpans(out)
}

// pausesOf returns when a member was paused.
func (b *indexedHistory) pausesOf(member uint32) spans { return b.outages(member, member, false) }

// withoutMajority returns when a leader could not hear a majority, including itself, or its disk hung. Nothing that it decides
// in that time can take effect. While the members change, it may need any of the majorities on the way,
// so the time counts unless it could hear all members of both lists.
func (b *indexedHistory) withoutMajority(leader uint32) spans {
	deaf := map[uint32]spans{}
	var edges []time.Duration
	for _, m := range b.allMembers() {
		deaf[m] = b.outages(leader, m, false)
		for _, s := range deaf[m] {
			edges = append(edges, s.from, s.to)
		}
	}
	for _, c := range b.Configurations {
		edges = append(edges, c.From)
	}
	slices.Sort(edges)
	var out []span
	for _, o := range b.Outages {
		if o.A == leader && o.B == leader && o.Partial {
			out = append(out, span{from: o.From, to: o.To})
		}
	}
	for i := 1; i < len(edges); i++ {
		c, heard := b.configurationAt(edges[i-1]), 0
		for _, m := range c.Members {
			if !deaf[m].overlaps(edges[i-1], edges[i]) {
				heard++
			}
		}
		if heard*2 <= len(c.Members) || c.Moving && heard < len(c.Members) {
			out = append(out, span{from: edges[i-1], to: edges[i]})
		}
	}
	return mergeSpans(out)
}

// configurationAt returns the Configuration at a moment.
func (b *indexedHistory) configurationAt(at time.Duration) Configuration {
	c := Configuration{Members: b.Members}
	for _, next := range b.Configurations {
		if next.From <= at {
			c = next
		}
	}
	return c
}

// allMembers returns all members that there have been.
func (b *indexedHistory) allMembers() []uint32 {
	all := slices.Clone(b.Members)
	for _, c := range b.Configurations {
		all = append(all, c.Members...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
