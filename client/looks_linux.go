package client

import "time"

// look says when a Loop has to check a connection next.
type look struct {
	at   time.Duration // since the Loop's base
	link *link
}

// lookQueue is a heap: the earliest look is first.
type lookQueue []look

func (q *lookQueue) push(l look) {
	*q = append(*q, l)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up].at <= h[i].at {
			return
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
}

// pop removes and returns the first look. The heap must not be empty.
func (q *lookQueue) pop() look {
	h := *q
	first := h[0]
	n := len(h) - 1
	h[0] = h[n]
	h[n] = look{}
	h = h[:n]
	*q = h
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			return first
		}
		if right := down + 1; right < n && h[right].at < h[down].at {
			down = right
		}
		if h[i].at <= h[down].at {
			return first
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
}
