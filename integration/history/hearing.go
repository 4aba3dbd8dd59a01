package history

import (
	"slices"
	"time"
)

// spans are stretches of time, in order, that neither overlap nor touch. A lookup is a binary
// search.
type spans []span

type span struct {
	from, to time.Duration
	before   time.Duration // the total length of all earlier ones
}

// union makes spans from stretches in any order. It leaves out empty ones.
func union(in []span) spans {
	in = slices.DeleteFunc(slices.Clone(in), func(s span) bool { return s.to <= s.from })
	slices.SortFunc(in, func(x, y span) int { return int(min(1, max(-1, x.from-y.from))) })
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

// after returns the index of the first span that ends after a moment.
func (s spans) after(at time.Duration) int {
	i, _ := slices.BinarySearchFunc(s, at, func(x span, at time.Duration) int {
		if x.to <= at {
			return -1
		}
		return 1
	})
	return i
}

// until returns how much of the time before a moment the spans cover.
func (s spans) until(at time.Duration) time.Duration {
	i := s.after(at)
	switch {
	case len(s) == 0:
		return 0
	case i == len(s):
		last := s[i-1]
		return last.before + last.to - last.from
	}
	return s[i].before + max(0, at-s[i].from)
}

// meet reports whether any of the spans has a part in [from, to).
func (s spans) meet(from, to time.Duration) bool {
	i := s.after(from)
	return i < len(s) && s[i].from < to
}

// clear returns the first moment, not before at, from which no span covers the next while. Only the
// part of that stretch before limit has to be clear.
func (s spans) clear(at, while, limit time.Duration) time.Duration {
	for i := s.after(at); i < len(s) && s[i].from < min(at+while, limit); i++ {
		at = s[i].to
	}
	return at
}

// chances returns the ends of the stretches after at that no span covers. Each stretch is cut to
// the length while; the last one has that length.
func (s spans) chances(at, while time.Duration) []time.Duration {
	var out []time.Duration
	for i := s.after(at); i < len(s) && s[i].from < at+while; i++ {
		if s[i].from > at {
			out = append(out, s[i].from)
		}
		at = s[i].to
	}
	return append(out, at+while)
}

// deaf returns when a leader may not have heard a member.
func (b *book) deaf(leader, member uint32) spans {
	return b.outages(leader, member, func(Outage) bool { return true })
}

// cutOff returns when a leader cannot have heard anything from a member.
func (b *book) cutOff(leader, member uint32) spans {
	return b.outages(leader, member, func(o Outage) bool { return !o.Partial })
}

func (b *book) outages(leader, member uint32, counts func(Outage) bool) spans {
	var out []span
	for _, o := range b.Outages {
		if !counts(o) {
			continue
		}
		if o.A == o.B && (o.A == leader || o.A == member) || o.A == min(leader, member) && o.B == max(leader, member) {
			out = append(out, span{from: o.From, to: o.To})
		}
	}
	return union(out)
}

// paused returns when a member was paused.
func (b *book) paused(member uint32) spans { return b.deaf(member, member) }

// alone returns when a leader could not hear a majority, including itself. Nothing that it decides
// in that time can take effect. While the members change, it may need any of the majorities on the way,
// so the time counts unless it could hear all members of both lists.
func (b *book) alone(leader uint32) spans {
	deaf := map[uint32]spans{}
	var edges []time.Duration
	for _, m := range b.everyMember() {
		deaf[m] = b.deaf(leader, m)
		for _, s := range deaf[m] {
			edges = append(edges, s.from, s.to)
		}
	}
	for _, c := range b.Configurations {
		edges = append(edges, c.From)
	}
	slices.Sort(edges)
	var out []span
	for i := 1; i < len(edges); i++ {
		c, heard := b.configuration(edges[i-1]), 0
		for _, m := range c.Members {
			if !deaf[m].meet(edges[i-1], edges[i]) {
				heard++
			}
		}
		if heard*2 <= len(c.Members) || c.Moving && heard < len(c.Members) {
			out = append(out, span{from: edges[i-1], to: edges[i]})
		}
	}
	return union(out)
}

// configuration returns the Configuration at a moment.
func (b *book) configuration(at time.Duration) Configuration {
	c := Configuration{Members: b.Members}
	for _, next := range b.Configurations {
		if next.From <= at {
			c = next
		}
	}
	return c
}

// everyMember returns all members that there have been.
func (b *book) everyMember() []uint32 {
	all := slices.Clone(b.Members)
	for _, c := range b.Configurations {
		all = append(all, c.Members...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
