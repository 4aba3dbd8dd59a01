// Package shop has a place for each kind of fault, once where its tests look and once where they do not.
package shop

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const most = 40 // a constant itself gets no fault, the places that use it do

var errEmpty = errors.New("nothing to sell")

type order struct {
	items, price int
	paid         bool
	note         string
	log          *slog.Logger
}

type stock struct {
	left    int
	sold    []order
	synced  bool
	waiting chan int
}

func (s *stock) sync() error {
	if s.synced {
		return errEmpty
	}
	s.synced = true
	return nil
}

// Sell is tested.
func Sell(s *stock, items, price int) (order, error) {
	if items < 1 || items > most {
		return order{}, fmt.Errorf("%d items, not 1 to %d", items, most)
	}
	for range 2 {
		if s.left >= items {
			break
		}
		s.left += min(items, 10)
	}
	if s.left < items {
		return order{}, errEmpty
	}
	s.left -= items
	o := order{items: items, price: items * price, paid: true, note: "a note is for people"}
	defer s.tell(items)
	s.sold = append(s.sold, o)
	return o, s.sync()
}

func (s *stock) tell(items int) {
	if s.waiting != nil && items != 0 {
		s.waiting <- items
	}
}

// Watch is not tested at all.
func Watch(s *stock, every time.Duration, low, high int) (alarms int) {
	for range 3 {
		slog.Info("checking", "low", low, "high", high+1)
		if s.left == low && !s.synced {
			alarms++
			continue
		}
		time.Sleep(every)
	}
	return max(alarms, between(low, high))
}

// between is tested by package till alone.
func between(low, high int) int { return (high - low) / 2 }

func Middle(low, high int) int { return low + between(low, high) }

// Count ends only if its step goes the right way.
func Count(n int) (steps int) {
	for n > 0 {
		n--
		steps++
	}
	return steps
}

// None has no fault: its capacity differs in costs only.
func None(n int) []int { return make([]int, 0, min(n-1, most)) }
